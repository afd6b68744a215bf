# SPDX-License-Identifier: MIT
"""Names and argument forms of other libraries, for engines that call those."""
