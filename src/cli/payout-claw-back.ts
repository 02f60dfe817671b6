import { randomUUID } from 'node:crypto'
import { type Command, Option } from 'commander'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { UUID } from '../base/runtime/uuid.ts'
import { clawBack, returnClawback } from '../money/payouts/payout-batches.ts'
import { amountArgument, textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { resolveHoster } from './resolve.ts'
import { withDatabase } from './with-database.ts'

/** `switchyard payout claw-back` and `give-back`. */
export function payoutClawBackCommands(): Command[] {
  return [takeBack(), giveBack()]
}

function takeBack(): Command {
  return createCommand('claw-back', 'Take earnings back, for a disputed payment or for proven fraud', [
    'payout claw-back acme 12.50 --fraud --reason "answers of a smaller model"',
    'payout claw-back acme 4 --dispute 00000000-0000-7000-8000-000000000001 --reason "stolen card"',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .argument('<usd>', 'amount in USD', amountArgument)
    .addOption(new Option('--fraud', 'the hoster was caught').conflicts('dispute'))
    .option('--dispute <reversal>', 'id of the dispute of the payment that paid for the requests', textArgument)
    .requiredOption('--reason <text>', 'why; shown to the hoster; required', textArgument)
    .action(async (hoster: string, amountNanos: Nanos, options) => {
      const session = createSession(options)
      const reversalId = (options.dispute as string | undefined) ?? null
      if (reversalId === null && options.fraud !== true) throw new UsageError('Add --fraud or --dispute <reversal>.')
      if (reversalId !== null && !UUID.test(reversalId)) throw new UsageError('--dispute must be the id of a dispute.')
      const clawbackId = randomUUID()
      const { found, verdict } = await withDatabase(session, async pool => {
        const found = await resolveHoster(pool, hoster)
        const order = {
          clawbackId,
          hosterId: found.hosterId,
          amountNanos,
          reversalId,
          reason: options.reason as string,
        }
        return { found, verdict: await clawBack(pool, null, order) }
      })
      if (verdict !== 'taken') throw new Failure(`${clawBackRefusals[verdict] ?? verdict} Nothing was changed.`)
      session.output.result(
        { clawback_id: clawbackId, hoster_id: found.hosterId, amount_usd: usdText(amountNanos) },
        `Took ${usdText(amountNanos)} USD back from ${found.name}. To give it back: ${ownCommand(`payout give-back ${clawbackId} --reason <text>`)}`,
      )
    })
}

const clawBackRefusals: Readonly<Record<string, string>> = {
  above_dispute: 'The dispute took less than this, or other claw-backs have it.',
  above_earnings: 'The hoster never earned this much.',
  no_dispute: 'There is no such dispute.',
}

function giveBack(): Command {
  return createCommand('give-back', 'Reverse a claw-back: the dispute was won, or there was no fraud', [
    'payout give-back 00000000-0000-7000-8000-000000000001 --reason "the bank decided for us"',
  ])
    .argument('<claw-back>', 'id of the claw-back', textArgument)
    .requiredOption('--reason <text>', 'why; shown to the hoster; required', textArgument)
    .action(async (clawbackId: string, options) => {
      const session = createSession(options)
      const reason = options.reason as string
      const isReturned =
        UUID.test(clawbackId) && (await withDatabase(session, pool => returnClawback(pool, null, clawbackId, reason)))
      if (!isReturned)
        throw new Failure('There is no such claw-back, or it was given back before. Nothing was changed.')
      session.output.result({ clawback_id: clawbackId, returned: true }, `Gave back what ${clawbackId} took.`)
    })
}
