import { ownCommand } from '../../base/runtime/own-command.ts'
import { quoteForShell } from '../../base/runtime/quote-for-shell.ts'
import type { CompletedCommand } from './command-tree.ts'
import { commandPatterns, fileCommandPatterns, optionPatterns } from './patterns.ts'

/** Returns a script for zsh, either for its `fpath` or to be sourced after `compinit`. */
export function zshScript(tree: readonly CompletedCommand[]): string {
  const { all, files, choices } = optionPatterns(tree)
  return `#compdef switchyard
# Completion of switchyard for zsh. Load it with: source <(${ownCommand('completion zsh')})
_switchyard() {
  local route=''
  local -a commands options
  local -i index
  for ((index = 2; index < CURRENT; index++)); do
    case "$route $words[index]" in
      ${all.join(' | ')}) ((index++)) ;;
      ${commandPatterns(tree).join(' | ')}) route="$route $words[index]" ;;
    esac
  done
  case "$route $words[CURRENT - 1]" in
    ${files.join(' | ')}) _files; return ;;
${choices.map(({ pattern, values }) => `    ${pattern}) compadd -- ${values.map(quoteForShell).join(' ')}; return ;;\n`).join('')}    ${all.join(' | ')}) return ;;
  esac
  case "$route" in
${tree.map(command => `    ${quoteForShell(command.path)})\n      commands=(${commandsOf(command)})\n      options=(${optionsOf(command)})\n      ;;\n`).join('')}  esac
  (( $#commands )) && _describe -t commands command commands
  _describe -o -t options option options
  case "$route" in
    ${fileCommandPatterns(tree).join(' | ')}) _files ;;
  esac
}
if [[ "$funcstack[1]" == _switchyard ]]; then _switchyard "$@"; else compdef _switchyard switchyard; fi
`
}

function commandsOf({ commands, choices }: CompletedCommand): string {
  return [
    ...commands.map(({ name, description }) => described(name, description)),
    ...choices.map(choice => quoteForShell(choice)),
  ].join(' ')
}

function optionsOf({ options }: CompletedCommand): string {
  return options.flatMap(({ flags, description }) => flags.map(flag => described(flag, description))).join(' ')
}

/** Returns a word and its description as `_describe` expects them. */
function described(word: string, description: string): string {
  return quoteForShell(`${word.replaceAll(':', '\\:')}:${description}`)
}
