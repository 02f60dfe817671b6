import type { Command, Option } from 'commander'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { createCommand, createCommandOutput } from './command.ts'

export function completionCommand(): Command {
  const command = createCommand('completion', 'Print a script with which bash completes commands and options', [
    'completion',
    'completion > ~/.local/share/bash-completion/completions/switchyard',
  ])
  return command.action(options => {
    const script = bashScript(withAllBelow(command.parent ?? command))
    createCommandOutput(options).result({ script }, script.trimEnd())
  })
}

interface KnownCommand {
  readonly command: Command
  /** The words after `switchyard`, each with a blank before it: `` for the program, ` key issue` for a command. */
  readonly path: string
}

function withAllBelow(command: Command, path = ''): KnownCommand[] {
  return [{ command, path }, ...command.commands.flatMap(inner => withAllBelow(inner, `${path} ${inner.name()}`))]
}

/** For bash 4 or newer. It compares `<path> <word>` with quoted patterns of a case statement. */
function bashScript(commands: readonly KnownCommand[]): string {
  const options = commands.flatMap(({ command, path }) =>
    command
      .createHelp()
      .visibleOptions(command)
      .flatMap(option => optionValue(option, path)),
  )
  const choices = options.filter(option => option.choices !== undefined)
  const ofFiles = options.filter(({ isFile }) => isFile)
  const patterns = (found: readonly { readonly path: string }[]) =>
    found.map(({ path }) => quoteForShell(path)).join(' | ')
  const words = (found: readonly string[]) => quoteForShell(found.join('\n'))
  return `# Completion of switchyard for bash. Load it with: source <(${ownCommand('completion')})
_switchyard() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' words='' index
  local IFS=$'\\n'
  for ((index = 1; index < COMP_CWORD; index++)); do
    case "$path \${COMP_WORDS[index]}" in
      ${patterns(options)}) ((index++)) ;;
      ${patterns(commands.slice(1))}) path="$path \${COMP_WORDS[index]}" ;;
    esac
  done
  COMPREPLY=()
  case "$path \${COMP_WORDS[COMP_CWORD - 1]}" in
    ${patterns(ofFiles)}) compopt -o default 2>/dev/null; COMPREPLY=($(compgen -f -- "$current")); return ;;
${choices.map(({ path, choices = [] }) => `    ${quoteForShell(path)}) words=${words(choices)} ;;\n`).join('')}    ${patterns(options)}) return ;;
    *)
      case "$path" in
${commands.map(({ command, path }) => `        ${quoteForShell(path)}) words=${words(wordsOf(command))} ;;\n`).join('')}      esac
      ;;
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$path" in
    ${patterns(commands.filter(takesFile))}) compopt -o default 2>/dev/null; COMPREPLY+=($(compgen -f -- "$current")) ;;
  esac
}
complete -F _switchyard switchyard
`
}

/** The options of a group are completed too, after its commands. */
function wordsOf(command: Command): string[] {
  const help = command.createHelp()
  const options = help.visibleOptions(command).flatMap(flagsOf)
  return [
    ...help.visibleCommands(command).map(inner => inner.name()),
    ...command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
    ...options,
  ]
}

/**
 * Nothing for an option without a value. A value in square brackets may be left out, so the next word may be anything.
 */
function optionValue(option: Option, path: string) {
  const isFile = /<(file|directory)>/.test(option.flags)
  return option.required
    ? flagsOf(option).map(flag => ({ path: `${path} ${flag}`, isFile, choices: option.argChoices }))
    : []
}

function flagsOf({ long, short }: Option): string[] {
  return [long, short].filter(flag => typeof flag === 'string')
}

function takesFile({ command }: KnownCommand): boolean {
  return command.registeredArguments.some(argument => argument.name() === 'file')
}
