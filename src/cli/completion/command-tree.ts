import type { Command, Option } from 'commander'

/** A command or a group of commands, as the completion scripts know it. */
export interface CompletedCommand {
  /** The words after `switchyard`, each with a blank before it: `` for the program, ` key issue` for a command. */
  readonly path: string
  /** The commands below a group; none for a command. */
  readonly commands: readonly { readonly name: string; readonly description: string }[]
  readonly options: readonly CompletedOption[]
  /** The values of its arguments, if they are known. */
  readonly choices: readonly string[]
  /** Whether an argument is a file. */
  readonly takesFile: boolean
}

export interface CompletedOption {
  /** Such as `--help` and `-h`. */
  readonly flags: readonly string[]
  readonly description: string
  /** What the next word is: another word, a file, one of these values, or a value that cannot be completed. */
  readonly takes: 'nothing' | 'file' | 'value' | readonly string[]
}

/** Returns the program and everything below it, groups before their commands. */
export function commandTree(command: Command, path = ''): CompletedCommand[] {
  const { visibleOptions, visibleCommands, visibleArguments } = visibleParts(command)
  return [
    {
      path,
      commands: visibleCommands.map(inner => ({ name: inner.name(), description: inner.description() })),
      options: visibleOptions.map(completedOption),
      choices: visibleArguments.flatMap(({ argChoices }) => argChoices ?? []),
      takesFile: visibleArguments.some(argument => argument.name() === 'file'),
    },
    ...visibleCommands.flatMap(inner => commandTree(inner, `${path} ${inner.name()}`)),
  ]
}

function visibleParts(command: Command) {
  const help = command.createHelp()
  return {
    visibleOptions: help.visibleOptions(command),
    visibleCommands: help.visibleCommands(command),
    visibleArguments: command.registeredArguments,
  }
}

function completedOption(option: Option): CompletedOption {
  const flags = [option.long, option.short].filter(flag => flag !== undefined && flag !== null)
  return { flags, description: option.description, takes: takenBy(option) }
}

function takenBy({ required, flags, argChoices }: Option): CompletedOption['takes'] {
  // A value in square brackets may be left out, so the next word may be anything.
  if (!required) return 'nothing'
  if (argChoices !== undefined) return argChoices
  return /<(file|directory)>/.test(flags) ? 'file' : 'value'
}
