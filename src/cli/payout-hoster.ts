import { randomUUID } from 'node:crypto'
import { type Command, Option } from 'commander'
import { ApiError } from '../domain/errors.ts'
import { type Nanos, usdText } from '../domain/money.ts'
import { moveEarnings, readEarnings, readFunds, readMovements } from '../payouts/earnings.ts'
import { enrollHoster, readPayoutAccount, setHosterCustomer } from '../payouts/payout-accounts.ts'
import { clawBack, freezePayouts, returnClawback } from '../payouts/payout-batches.ts'
import { statementCsv } from '../payouts/statement-csv.ts'
import { systemClock } from '../runtime/clock.ts'
import { ownCommand } from '../runtime/own-command.ts'
import { UUID } from '../runtime/uuid.ts'
import { amountArgument, dayArgument, textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { payoutDriversOf } from './payout-drivers-of.ts'
import { resolveCustomer } from './resolve-customer.ts'
import { resolveHoster } from './resolve-hoster.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

const commandLine = { personId: null, address: null }

/** The payout commands that name a hoster. */
export function payoutHosterCommands(): Command[] {
  return [account(), statement(), move(), freeze(), release(), takeBack(), giveBack()]
}

function account(): Command {
  return createCommand('account', 'Show where a hoster is paid, or change it', [
    'payout account acme',
    'payout account acme --holder "Acme GmbH" --account "DE89 3704 0044 0532 0130 00"',
    'payout account acme --stripe',
    'payout account acme --customer ada@example.com',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .option('--holder <name>', 'holder of the bank account', textArgument)
    .addOption(new Option('--account <number>', 'IBAN or another account number').argParser(textArgument))
    .addOption(
      new Option('--stripe', 'make an account at Stripe and print where the hoster goes on').conflicts([
        'holder',
        'account',
      ]),
    )
    .option('--customer <customer>', 'e-mail or id of the customer that may get earnings as credit', textArgument)
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      if ((options.holder === undefined) !== (options.account === undefined)) {
        throw new UsageError('--holder and --account belong together.')
      }
      const { found, shown, url } = await withDatabase(session, async pool => {
        const found = await resolveHoster(pool, hoster)
        let url: string | null = null
        if (options.customer !== undefined) {
          const { customerId } = await resolveCustomer(pool, options.customer)
          await setHosterCustomer(pool, found.hosterId, customerId, commandLine)
        }
        if (options.stripe === true || options.account !== undefined) {
          const name = options.stripe === true ? 'stripe' : 'csv'
          const driver = payoutDriversOf(session.config).find(each => each.name === name)
          if (driver === undefined) {
            throw new Failure('Stripe is not set up for payouts. Set payouts.stripe and payments.stripe.secret_key.')
          }
          const details = name === 'csv' ? { holder: options.holder, account: options.account } : null
          const enrolled = await enrollHoster(pool, driver, found.hosterId, details, commandLine).catch(refuse)
          url = enrolled.url
        }
        return { found, shown: await readPayoutAccount(pool, found.hosterId), url }
      })
      const { driver, state, destination, holder, note, customerId } = shown
      const text = [
        driver === null
          ? `${found.name} has no payout account.`
          : `${found.name} is paid by ${driver} to ${[holder, destination].filter(Boolean).join(', ')}: ${state}.`,
        note,
        url === null ? null : `The hoster goes on at: ${url}`,
        customerId === null ? null : `Its earnings may become credit of customer ${customerId}.`,
      ]
      session.output.result(
        {
          hoster_id: found.hosterId,
          name: found.name,
          driver,
          state,
          account: destination,
          holder,
          note,
          url,
          customer_id: customerId,
        },
        text.filter(line => line !== null).join('\n'),
      )
    })
}

function statement(): Command {
  return createCommand('statement', 'Show what a hoster earned by day and model, and what it has', [
    'payout statement acme',
    'payout statement acme --from 2026-11-01 --to 2026-12-01 --csv > acme.csv',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .option('--from <day>', 'first UTC day; default: the beginning', dayArgument)
    .option('--to <day>', 'last UTC day, exclusive; default: now', dayArgument)
    .option('--csv', 'print the lines as CSV')
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const span = { from: options.from ?? null, to: options.to ?? null }
      const { lines, movements, funds } = await withDatabase(session, async pool => {
        const { hosterId } = await resolveHoster(pool, hoster)
        return {
          lines: await readEarnings(pool, hosterId, span),
          movements: await readMovements(pool, hosterId, span),
          funds: (await readFunds(pool, hosterId, session.config.payouts.holdDays, systemClock.epochMs()))!,
        }
      })
      if (options.csv === true) {
        session.output.result({ csv: statementCsv(lines) }, statementCsv(lines).trimEnd())
        return
      }
      session.output.result(
        {
          hoster_id: funds.hosterId,
          name: funds.name,
          balance_usd: usdText(funds.balanceNanos),
          held_usd: usdText(funds.heldNanos),
          held_until: funds.heldUntil,
          payable_usd: usdText(funds.payableNanos),
          frozen_reason: funds.freezeReason,
          lines: lines.map(line => ({
            day: line.day,
            model: line.modelId,
            requests: Number(line.requests),
            input_tokens: Number(line.inputTokens),
            output_tokens: Number(line.outputTokens),
            gross_usd: usdText(line.grossNanos),
            share_usd: usdText(line.shareNanos),
            fee_usd: usdText(line.feeNanos),
            refunded_usd: usdText(line.refundedNanos),
            refunded_share_usd: usdText(line.refundedShareNanos),
          })),
          movements: movements.map(({ kind, amountNanos, at, reason }) => ({
            kind,
            amount_usd: usdText(amountNanos),
            at: at.toISOString(),
            reason,
          })),
        },
        [
          table(
            ['day', 'model', 'requests', 'tokens in', 'out', 'gross USD', 'share', 'fee', 'refunded'],
            lines.map(line => [
              line.day,
              line.modelId,
              ...[line.requests, line.inputTokens, line.outputTokens].map(String),
              ...[line.grossNanos, line.shareNanos, line.feeNanos, line.refundedShareNanos].map(nanos =>
                usdText(nanos),
              ),
            ]),
            'Nothing was earned on these days.',
          ),
          ...(movements.length === 0
            ? []
            : [
                table(
                  ['at', 'kind', 'USD', 'reason'],
                  movements.map(({ kind, amountNanos, at, reason }) => [
                    at.toISOString().slice(0, 16).replace('T', ' '),
                    kind,
                    usdText(amountNanos),
                    reason,
                  ]),
                  '',
                ),
              ]),
          `Balance ${usdText(funds.balanceNanos)} USD: ${usdText(funds.payableNanos)} payable${
            funds.heldUntil === null ? '' : `, ${usdText(funds.heldNanos)} held until ${funds.heldUntil}`
          }${funds.frozenAt === null ? '' : `. Payouts are frozen: ${funds.freezeReason ?? 'no reason given'}`}`,
        ].join('\n\n'),
      )
    })
}

function move(): Command {
  return createCommand('move', "Give a hoster's earnings to the balance of its customer, held ones too", [
    'payout move acme',
    'payout move acme --amount 10',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .option('--amount <usd>', 'USD; default: all', amountArgument)
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      const amountNanos = (options.amount as Nanos | undefined) ?? null
      const { found, moved } = await withDatabase(session, async pool => {
        const found = await resolveHoster(pool, hoster)
        const order = { moveId: randomUUID(), hosterId: found.hosterId, amountNanos }
        return { found, moved: await moveEarnings(pool, order, commandLine) }
      })
      if (moved.verdict === 'no_customer') {
        throw new Failure(
          `${found.name} has no customer. Set one with: ${ownCommand(`payout account ${found.hosterId} --customer <customer>`)}`,
        )
      }
      if (moved.verdict === 'frozen')
        throw new Failure(`The earnings of ${found.name} are frozen. Nothing was changed.`)
      if (moved.verdict !== 'moved') {
        throw new Failure(`${found.name} has ${usdText(moved.amount)} USD to move. Nothing was changed.`)
      }
      session.output.result(
        { hoster_id: found.hosterId, customer_id: moved.customer, amount_usd: usdText(moved.amount) },
        `Moved ${usdText(moved.amount)} USD of ${found.name} to customer ${moved.customer}.`,
      )
    })
}

function freeze(): Command {
  return createCommand('freeze', 'Pay nothing to a hoster; what it earned stays its own', [
    'payout freeze acme --reason "checks its answers"',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .requiredOption('--reason <text>', 'why; shown to the hoster; required', textArgument)
    .action((hoster: string, options) => setFreeze(hoster, options, options.reason))
}

function release(): Command {
  return createCommand('release', 'Pay a hoster again that was frozen', ['payout release acme'])
    .argument('<hoster>', 'name or id', textArgument)
    .action((hoster: string, options) => setFreeze(hoster, options, null))
}

async function setFreeze(hoster: string, options: object, reason: string | null): Promise<void> {
  const session = createSession(options)
  const { found, changed } = await withDatabase(session, async pool => {
    const found = await resolveHoster(pool, hoster)
    return { found, changed: await freezePayouts(pool, null, found.hosterId, reason) }
  })
  const state = reason === null ? 'not frozen' : 'frozen'
  session.output.result(
    { hoster_id: found.hosterId, name: found.name, frozen: reason !== null, changed },
    changed ? `Payouts of ${found.name} are ${state}.` : `Payouts of ${found.name} were ${state} before.`,
  )
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
        `Took ${usdText(amountNanos)} USD back from ${found.name}. To give it back: ${ownCommand(`payout give-back ${clawbackId}`)}`,
      )
    })
}

const clawBackRefusals: Readonly<Record<string, string>> = {
  above_dispute: 'The dispute took less than this, or other claw-backs have it.',
  above_earnings: 'The hoster never earned this much.',
  no_dispute: 'There is no such dispute.',
}

function giveBack(): Command {
  return createCommand('give-back', 'Give a claw-back back: the dispute was won, or the fraud was none', [
    'payout give-back 00000000-0000-7000-8000-000000000001',
  ])
    .argument('<claw-back>', 'id of the claw-back', textArgument)
    .action(async (clawbackId: string, options) => {
      const session = createSession(options)
      const isReturned =
        UUID.test(clawbackId) && (await withDatabase(session, pool => returnClawback(pool, null, clawbackId)))
      if (!isReturned) throw new Failure('There is nothing to give back. Nothing was changed.')
      session.output.result({ clawback_id: clawbackId, returned: true }, `Gave back what ${clawbackId} took.`)
    })
}

function refuse(error: unknown): never {
  if (error instanceof ApiError) throw new Failure(error.message)
  throw error
}
