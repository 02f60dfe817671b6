import { createInterface } from 'node:readline/promises'
import type { Session } from './command.ts'
import { Failure, UsageError } from './failure.ts'

/**
 * Asks the operator on a terminal. Throws Failure unless the answer is yes, and UsageError when there is no terminal.
 *
 * @param advice what to do without a terminal
 */
export async function confirm({ output }: Session, question: string, advice: string): Promise<void> {
  if (!output.interactive) throw new UsageError(`Cannot ask for confirmation here. ${advice}`)
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    const answer = await prompt.question(`${question} [y/N] `)
    if (!/^y(es)?$/i.test(answer.trim())) throw new Failure('Nothing was changed.')
  } finally {
    prompt.close()
  }
}
