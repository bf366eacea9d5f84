#compdef omma
# zsh completion for omma: what may come is asked of the program itself.
_omma() {
  local line files= program=${(Q)words[1]}
  local -a candidates
  for line in ${(f)"$(${~program} __complete "${(@Q)words[2,CURRENT]}" 2> /dev/null)"}; do
    if [[ $line == :files ]]; then
      files=yes
    else
      line=${line//:/\\:}
      candidates+=("${line/$'\t'/:}")
    fi
  done
  (( $#candidates )) && _describe -t omma omma candidates
  if [[ $files ]]; then
    [[ $PREFIX == --*=* ]] && compset -P '*='
    _files
  fi
}
if [[ $funcstack[1] == _omma ]]; then
  _omma "$@"
else
  compdef _omma omma
fi
