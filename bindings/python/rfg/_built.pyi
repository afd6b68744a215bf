# SPDX-License-Identifier: MIT
LIBRARY: str
SONAME: str
