import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Command, CommanderError } from 'commander'
import { errorMessage } from '../runtime/error-message.ts'
import { UsageError } from './failure.ts'
import { resultWritten } from './output.ts'
import { createProgram } from './program.ts'

const EXIT_FAILED = 1
const EXIT_USAGE = 2

/** Runs one command; resolves with the exit code: 0 done, 1 failed, 2 wrong usage. */
export async function run(argv: readonly string[]): Promise<number> {
  let unwritten: Error | undefined
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // Whoever reads us may stop early, as `switchyard key list | head -1` does; and a gateway serves although nobody read that it is ready.
    if (error.code !== 'EPIPE') unwritten = error
  })
  // There is no other place to say that this one cannot be written.
  process.stderr.on('error', () => {})
  const code = await exitCodeOf(argv)
  await resultWritten()
  // A write that failed says so in the next turn.
  await nextTurn()
  if (unwritten === undefined) return code
  process.stderr.write(
    `Standard output could not be written, and what was to be read there is lost: ${unwritten.message}\n`,
  )
  return code === 0 ? EXIT_FAILED : code
}

async function exitCodeOf(argv: readonly string[]): Promise<number> {
  try {
    await throwing(createProgram()).parseAsync(argv)
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE
    process.stderr.write(`${errorMessage(error)}\n`)
    return error instanceof UsageError ? EXIT_USAGE : EXIT_FAILED
  }
}

/** Makes commander throw instead of ending the process. Settings are not inherited by commands that were added. */
function throwing(command: Command): Command {
  command.exitOverride()
  for (const inner of command.commands) throwing(inner)
  return command
}
