# Completion of renderq for bash. Goes into share/bash-completion/completions/renderq.

# What may follow a command; an option that takes a value ends in "=" here, and not on the command line.
_renderq_options() {
    case $1 in
        enqueue) echo "--payload-file= --priority= --delay= --max-retries= --dedup-key= --output-url= --file=" ;;
        work) echo "--jobs= --once --until-empty --wait= --max-jobs= --lease= --retry-after= --worker=" ;;
        stats) echo "--watch --interval=" ;;
        list) echo "--state= --composition= --worker= --limit=" ;;
        show) echo "--payload" ;;
        retry) echo "--all --yes" ;;
        cancel) echo "--yes" ;;
        settle) echo "--spare-renewed" ;;
        release) echo "--delay=" ;;
        purge) echo "--older-than= --yes" ;;
    esac
    echo "--db= --queue= --password-file= --json --help"
}

_renderq_offer() {
    [[ $1 == -f ]] && compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen "$@")
}

# Bash takes "sqlite:jobs.db" and "--state=Queued" apart at : and =; this puts them together again in `words`.
_renderq_words() {
    local i glue=""
    words=()
    for ((i = 0; i <= COMP_CWORD; i++)); do
        if [[ ${COMP_WORDS[i]} == [:=]* || -n $glue ]] && ((i > 0)); then
            words[-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        [[ ${COMP_WORDS[i]} == *[:=] ]] && glue=1 || glue=""
    done
}

_renderq() {
    local all="init schema enqueue work stats list show retry cancel settle release reap purge version help"
    local words current last command="" wants_value="" options word i
    COMPREPLY=()
    _renderq_words
    last=$((${#words[@]} - 1))
    current=${words[last]}
    options=" $(_renderq_options "" | tr '\n' ' ') "
    for ((i = 1; i < last; i++)); do
        word=${words[i]}
        if [[ -n $wants_value ]]; then
            wants_value=""
        elif [[ $word == -- || ($command == work && $word != -*) ]]; then
            # From here on it is the program that work runs.
            [[ $word == -- ]] && ((i++))
            if ((i == last)); then
                _renderq_offer -c -- "$current"
            else
                _renderq_offer -f -- "$current"
            fi
            return
        elif [[ $word == -[dqf] || $options == *" $word= "* ]]; then
            wants_value=$word
        elif [[ $word != -* && -z $command ]]; then
            command=$word
            options=" $(_renderq_options "$command" | tr '\n' ' ') "
        fi
    done
    if [[ -z $wants_value && $current == --*=* ]]; then
        wants_value=${current%%=*}
        current=${current#*=}
    fi
    case $wants_value in
        "") ;;
        --state)
            _renderq_offer -W "Scheduled Queued Processing Completed DeadLetter Cancelled Other" -- "$current"
            return ;;
        --file | --payload-file | --password-file | -f)
            _renderq_offer -f -- "$current"
            return ;;
        *) return ;;
    esac
    if [[ $current == -* ]]; then
        _renderq_offer -W "${options//=/}" -- "$current"
    elif [[ -z $command || $command == help ]]; then
        _renderq_offer -W "$all" -- "$current"
    elif [[ $command == work ]]; then
        _renderq_offer -c -- "$current"
    fi
}

complete -F _renderq renderq
