import { Command } from 'commander'
import { type Config, loadConfig } from '../config/config.ts'
import { createOutput, type Output } from './output.ts'

/** What every command gets besides its own arguments. */
export interface Session {
  readonly config: Config
  readonly output: Output
}

interface CommonOptions {
  readonly json?: true
  readonly config?: string
}

/** A command with what all have: --json, --config, and examples under its help. */
export function verb(name: string, summary: string, examples: readonly string[]): Command {
  const command = withCommonOptions(new Command(name).description(summary))
  return command
    .configureOutput({ outputError: (text, write) => write(missingArguments(command, text) + text) })
    .hook('preAction', (_, command) => takeOptionsGivenBefore(command))
    .addHelpText('after', `\nExamples:\n${examples.map(example => `  $ switchyard ${example}`).join('\n')}`)
}

/** Commander looks at required options first, and whoever typed nothing would be asked for one thing after the other, the last first. */
function missingArguments({ args, registeredArguments }: Command, text: string): string {
  if (!text.startsWith('error: required option')) return ''
  return registeredArguments
    .slice(args.length)
    .filter(({ required }) => required)
    .map(argument => `error: missing required argument '${argument.name()}'\n`)
    .join('')
}

/** A group of commands about one thing. */
export function noun(name: string, summary: string, verbs: readonly Command[]): Command {
  const group = before(new Command(name).description(summary).helpCommand(false))
  for (const command of verbs) group.addCommand(command)
  return group
}

/** A command that has others below it takes the common options as well, before the name of the other: `switchyard --json doctor`. */
export function before(group: Command): Command {
  return withCommonOptions(group).enablePositionalOptions()
}

const commonOptions = ['json', 'config'] as const

function withCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print the result as one line of JSON')
    .option('--config <file>', 'read this configuration file instead of ./switchyard.yaml')
}

/** What stands behind the command wins over what stands before it. */
function takeOptionsGivenBefore(command: Command): void {
  for (const name of commonOptions) {
    for (let outer = command.parent; outer !== null; outer = outer.parent) {
      if (command.getOptionValue(name) === undefined) command.setOptionValue(name, outer.getOptionValue(name))
    }
  }
}

/** Reads the configuration as the command's options say. Throws ConfigError. */
export function sessionOf(options: CommonOptions): Session {
  return { config: loadConfig({ file: options.config }), output: outputOf(options) }
}

export function outputOf(options: CommonOptions): Output {
  return createOutput({ json: options.json === true })
}
