import { ownCommand } from '../../base/runtime/own-command.ts'
import { quoteForShell } from '../../base/runtime/quote-for-shell.ts'
import type { CompletedCommand } from './command-tree.ts'
import { commandPatterns, fileCommandPatterns, optionPatterns } from './patterns.ts'

/** Returns a script for bash 4 or newer. */
export function bashScript(tree: readonly CompletedCommand[]): string {
  const { all, files, choices } = optionPatterns(tree)
  return `# Completion of switchyard for bash. Load it with: source <(${ownCommand('completion bash')})
_switchyard() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' words='' index
  local IFS=$'\\n'
  COMPREPLY=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "$path \${COMP_WORDS[index]}" in
      ${all.join(' | ')}) ((index++)) ;;
      ${commandPatterns(tree).join(' | ')}) path="$path \${COMP_WORDS[index]}" ;;
    esac
  done
  case "$path \${COMP_WORDS[COMP_CWORD - 1]}" in
    ${files.join(' | ')})
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -- "$current"))
      return
      ;;
${choices.map(({ pattern, values }) => `    ${pattern}) words=${quoteForShell(values.join('\n'))} ;;\n`).join('')}    ${all.join(' | ')}) return ;;
    *)
      case "$path" in
${tree.map(command => `        ${quoteForShell(command.path)}) words=${quoteForShell(wordsOf(command).join('\n'))} ;;\n`).join('')}      esac
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$path" in
    ${fileCommandPatterns(tree).join(' | ')})
      compopt -o filenames 2>/dev/null
      COMPREPLY+=($(compgen -f -- "$current"))
      ;;
  esac
}
complete -F _switchyard switchyard
`
}

/** The options of a group are completed too, after the commands. */
function wordsOf({ commands, options, choices }: CompletedCommand): string[] {
  return [...commands.map(({ name }) => name), ...choices, ...options.flatMap(({ flags }) => flags)]
}
