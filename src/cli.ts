import { type Command, CommanderError } from 'commander'
import { Failure, UsageError } from './cli/failure.ts'
import { createProgram } from './cli/program.ts'
import { ConfigError } from './config.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

process.exitCode = await run(process.argv)

/** Runs one command; resolves with the exit code. */
async function run(argv: readonly string[]): Promise<number> {
  // Whoever reads us may stop early, as `switchyard key list | head -1` does.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0)
    throw error
  })
  try {
    await throwing(createProgram()).parseAsync(argv)
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE
    process.stderr.write(`${messageOf(error)}\n`)
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED
  }
}

/** Makes commander throw instead of ending the process. Settings are not inherited by commands that were added. */
function throwing(command: Command): Command {
  command.exitOverride()
  for (const inner of command.commands) throwing(inner)
  return command
}

/** Sentences made for operators are shown as they are. Anything else is a fault of ours, and its stack helps to find it. */
function messageOf(error: unknown): string {
  if (error instanceof ConfigError) return error.message
  if (error instanceof Failure || error instanceof UsageError) return error.message
  return error instanceof Error ? error.message : String(error)
}
