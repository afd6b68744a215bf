# SPDX-License-Identifier: MIT
# Completion of rfg's programs for bash: options and commands are those of --help.
_rfg()
{
    local program=$1 cur prev words=
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n : cur prev # "amd:0" is one word
    else
        cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    fi
    case $prev in
    --device) words="cpu amd:0 amd:all nvidia:0 nvidia:all emu:gfx90a:4 emu:gfx942:4 emu:gfx950:4 emu:gfx1100:4" ;;
    --arch) words="gfx90a gfx942 gfx950 gfx1100 gfx1201 sm_80 sm_90" ;;
    --provider) words="hiprtc nvrtc clang ziglang" ;;
    --how) words="keep imported" ;;
    --prefer) words="fastest newest" ;;
    --form) words="csv tunableop" ;;
    --shard) words="auto" ;;
    *)
        if [[ $cur == -* ]]; then
            words=$("$program" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+' | sort -u)
        elif [[ ${program##*/} == rfg-db && $COMP_CWORD == 1 ]]; then
            words=$("$program" --help 2>/dev/null | grep -oE '(^ |;) [a-z]+ ' | tr -d ' ;' | sort -u)
        fi
        ;;
    esac
    if [[ -n $words ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        if declare -F __ltrim_colon_completions >/dev/null; then __ltrim_colon_completions "$cur"; fi
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        compopt -o filenames 2>/dev/null
    fi
}
complete -F _rfg rfg-bench rfg-compile rfg-db rfg-emu rfg-info rfg-tune
