import { setImmediate as nextTurn } from 'node:timers/promises'
import { type Command, CommanderError } from 'commander'
import { errorMessage } from '../base/runtime/error-message.ts'
import { EXIT_BUSY, EXIT_FAILED, EXIT_USAGE } from '../base/runtime/exit-codes.ts'
import { Busy } from './failure.ts'
import { resultWritten } from './output.ts'
import { createProgram } from './program.ts'

/** Runs one command. Resolves with the exit code: 0 success, 1 failure, 2 wrong usage, 3 another process is doing the same work. */
export async function run(argv: readonly string[]): Promise<number> {
  let writeError: Error | undefined
  const noteError = (error: NodeJS.ErrnoException) => {
    // EPIPE is not a failure: the reader may stop early (`switchyard key list | head -1`), and a gateway keeps
    // serving after its reader has gone.
    if (error.code !== 'EPIPE') writeError = error
  }
  // Errors of stderr are ignored: there is no other place to report them.
  const ignoreError = () => {}
  process.stdout.on('error', noteError)
  process.stderr.on('error', ignoreError)
  const code = await runProgram(argv)
  await resultWritten()
  // A failed write emits its error in the next turn.
  await nextTurn()
  process.stdout.off('error', noteError)
  process.stderr.off('error', ignoreError)
  if (writeError === undefined) return code
  process.stderr.write(`Cannot write to standard output, so the result is lost: ${writeError.message}\n`)
  return code === 0 ? EXIT_FAILED : code
}

async function runProgram(argv: readonly string[]): Promise<number> {
  try {
    await throwOnExit(createProgram()).parseAsync(argv)
    return 0
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : EXIT_USAGE
    process.stderr.write(`${errorMessage(error)}\n`)
    return error instanceof Busy ? EXIT_BUSY : EXIT_FAILED
  }
}

/**
 * Makes commander throw instead of ending the process. Applied to each subcommand, because added commands do not
 * inherit the setting.
 */
function throwOnExit(command: Command): Command {
  command.exitOverride()
  for (const subcommand of command.commands) throwOnExit(subcommand)
  return command
}
