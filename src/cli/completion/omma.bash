# bash completion for omma: what may come is asked of the program itself.
_omma() {
  local program=${COMP_WORDS[0]} words=() word line candidate glued= IFS=$' \t\n'
  # --name=value is three words to bash where = breaks words, and one to omma.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == = && ${#words[@]} -gt 0 ]]; then
      words[${#words[@]} - 1]+==
      glued=yes
    elif [[ $glued ]]; then
      words[${#words[@]} - 1]+=$word
      glued=
    else
      words+=("$word")
    fi
  done
  local current=${words[${#words[@]} - 1]} prefix=
  [[ $current == --*=* && $COMP_WORDBREAKS == *=* ]] && prefix=${current%%=*}=
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2> /dev/null
      while IFS= read -r candidate; do COMPREPLY+=("$candidate"); done < <(compgen -f -- "${current#"$prefix"}")
    else
      candidate=${line%%$'\t'*}
      COMPREPLY+=("${candidate#"$prefix"}")
    fi
  done < <("${program/#\~/$HOME}" __complete "${words[@]}" 2> /dev/null)
}
complete -F _omma omma
