import { Command } from 'commander'
import { ownCommand } from '../base/runtime/own-command.ts'
import { type Config, loadConfig } from '../start/config/config.ts'
import { createLiveConfig, type LiveConfig } from '../start/config/live-config.ts'
import { UsageError } from './failure.ts'
import { createOutput, type Output } from './output.ts'

/** The configuration and the output of a command. */
export interface Session {
  /** With what operators manage, once `withDatabase` has read it. */
  readonly config: Config
  readonly output: Output
  /** Replaces the settings of `config` that operators can manage. */
  readonly useSettings?: LiveConfig['use']
}

export interface CommonOptions {
  readonly json?: true
  readonly config?: string
}

/** Returns a command with the common options --json and --config, and with examples below its help. */
export function createCommand(name: string, summary: string, examples: readonly string[]): Command {
  const command = addCommonOptions(new CheckedCommand(name).description(summary))
  return command
    .configureOutput({ outputError: (text, write) => write(usageErrorText(command, text)) })
    .hook('preAction', (_, command) => inheritCommonOptions(command))
    .addHelpText('after', () => `\nExamples:\n${examples.map(example => `  $ ${ownCommand(example)}`).join('\n')}`)
}

/** Reports a UsageError of its action as commander reports its own. */
class CheckedCommand extends Command {
  override action(run: Parameters<Command['action']>[0]): this {
    return super.action(async (...args) => {
      try {
        await run.apply(this, args)
      } catch (error) {
        if (error instanceof UsageError) this.error(error.message)
        throw error
      }
    })
  }
}

/** Words a usage error as sentences, like every other error, and adds how to get help. */
function usageErrorText(command: Command, text: string): string {
  const plain = text
    .trimEnd()
    .replace(
      /^error: command-argument value '(.*)' is invalid for argument '(.*?)'\./s,
      "error: argument '$2' is '$1'.",
    )
    .replace(/\n\((Did you mean .*\?)\)$/, '. $1')
  const errors = [...missingArguments(command, text), plain]
  return `${errors.map(sentence).join('\n')}\nSee: ${ownCommand(helpOf(command))}\n`
}

/** Turns `error: unknown option '-x'` of commander into a sentence. */
function sentence(text: string): string {
  const plain = text.replace(/^error: (.)/, (_, first: string) => first.toUpperCase())
  return /[.?]$/.test(plain) ? plain : `${plain}.`
}

/** Returns `key issue --help` for a command, `--help` for the program. */
function helpOf(command: Command): string {
  let words = '--help'
  for (let each = command; each.parent !== null; each = each.parent) words = `${each.name()} ${words}`
  return words
}

/**
 * Lists missing arguments before a missing option: commander would report the option first and the arguments
 * only on the next try.
 */
function missingArguments({ args, registeredArguments }: Command, text: string): string[] {
  if (!text.startsWith('error: required option')) return []
  return registeredArguments
    .slice(args.length)
    .filter(({ required }) => required)
    .map(argument => `Missing required argument '${argument.name()}'`)
}

/** Returns a command that only groups others, such as `key` with `issue`, `list` and `revoke`. */
export function createCommandGroup(name: string, summary: string, commands: readonly Command[]): Command {
  const group = addGroupOptions(new Command(name).description(summary).helpCommand(false))
  for (const command of commands) group.addCommand(command)
  return group
}

/** Lets a group accept the common options before the name of a subcommand: `switchyard --json doctor`. */
export function addGroupOptions(group: Command): Command {
  return addCommonOptions(group)
    .enablePositionalOptions()
    .configureOutput({ outputError: (text, write) => write(usageErrorText(group, text)) })
}

const commonOptions = ['json', 'config'] as const

function addCommonOptions(command: Command): Command {
  return command
    .option('--json', 'print the result as one line of JSON')
    .option('--config <file>', 'read this configuration file instead of ./switchyard.yaml')
}

/** Copies common options from the parent commands. An option after the subcommand's name wins. */
function inheritCommonOptions(command: Command): void {
  for (const name of commonOptions) {
    for (let parent = command.parent; parent !== null; parent = parent.parent) {
      if (command.getOptionValue(name) === undefined) command.setOptionValue(name, parent.getOptionValue(name))
    }
  }
}

/** Loads the configuration that the command's options select. Throws ConfigError. */
export function createSession(options: CommonOptions): Session {
  const { config, use } = createLiveConfig(loadConfig({ file: options.config }))
  return { config, useSettings: use, output: createCommandOutput(options) }
}

export function createCommandOutput(options: CommonOptions): Output {
  return createOutput({ json: options.json === true })
}
