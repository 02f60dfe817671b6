import { randomUUID } from 'node:crypto'
import { type Command, Option } from 'commander'
import { commandLine } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import { payoutLabels, payoutProviderNames } from '../base/domain/money-drivers.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { moveEarnings } from '../money/payouts/earnings.ts'
import {
  enrollHoster,
  listPayoutChanges,
  type PayoutChange,
  readPayoutAccount,
  setHosterCustomer,
  stopPayoutChanges,
} from '../money/payouts/payout-accounts.ts'
import { showPayoutChange } from '../money/payouts/show-payout.ts'
import { amountArgument, textArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { payoutDriverOf } from './payout-drivers-of.ts'
import { resolveCustomer, resolveHoster } from './resolve.ts'
import { withDatabase } from './with-database.ts'

/** `switchyard payout account`: where a hoster is paid. */
export function payoutAccount(): Command {
  const command = createCommand('account', 'Show where a hoster is paid, or change it', [
    'payout account acme',
    'payout account acme --holder "Acme GmbH" --account "DE89 3704 0044 0532 0130 00"',
    `payout account acme --${payoutProviderNames[0]}`,
    'payout account acme --customer ada@example.com',
    'payout account acme --stop',
  ])
    .argument('<hoster>', 'name or id', textArgument)
    .option('--holder <name>', 'holder of the bank account', textArgument)
    .addOption(new Option('--account <number>', 'IBAN or another account number').argParser(textArgument))
  for (const name of payoutProviderNames) {
    const text = `make an account at ${payoutLabels[name]} and print where the hoster goes on`
    command.addOption(new Option(`--${name}`, text).conflicts(['holder', 'account']))
  }
  return command
    .option('--customer <customer>', 'e-mail or id of the customer that may get earnings as credit', textArgument)
    .addOption(
      new Option('--stop', 'stop the changes that wait').conflicts([
        'holder',
        'account',
        ...payoutProviderNames,
        'customer',
      ]),
    )
    .action(async (hoster: string, options) => {
      const session = createSession(options)
      if ((options.holder === undefined) !== (options.account === undefined)) {
        throw new UsageError('--holder and --account belong together.')
      }
      const { found, shown, changes, url } = await withDatabase(session, async pool => {
        const found = await resolveHoster(pool, hoster)
        const nowMs = Date.now()
        const wait = { nowMs, accountWaitHours: session.config.payouts.accountWaitHours }
        if (options.stop === true) {
          await stopPayoutChanges(pool, { hosterId: found.hosterId, changeId: null }, commandLine, nowMs)
        }
        let url: string | null = null
        if (options.customer !== undefined) {
          const { customerId } = await resolveCustomer(pool, options.customer)
          await setHosterCustomer(pool, found.hosterId, customerId, commandLine, wait)
        }
        const provider = payoutProviderNames.find(name => options[name] === true)
        if (provider !== undefined || options.account !== undefined) {
          const name = provider ?? 'csv'
          const driver = payoutDriverOf(session.config, name)
          const details = name === 'csv' ? { holder: options.holder, account: options.account } : null
          const enrolled = await enrollHoster(
            pool,
            driver,
            { hosterId: found.hosterId, details },
            commandLine,
            wait,
          ).catch(refuse)
          url = enrolled.url
        }
        return {
          found,
          shown: await readPayoutAccount(pool, found.hosterId),
          changes: await listPayoutChanges(pool, found.hosterId),
          url,
        }
      })
      const { driver, state, destination, holder, note, customerId } = shown
      const text = [
        driver === null
          ? `${found.name} has no payout account.`
          : `${found.name} is paid by ${driver} to ${[holder, destination].filter(Boolean).join(', ')}: ${state}.`,
        note,
        url === null ? null : `The hoster continues at: ${url}`,
        customerId === null ? null : `Its earnings may become credit of customer ${customerId}.`,
        ...changes.map(changeText),
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
          changes: changes.map(showPayoutChange),
        },
        text.filter(line => line !== null).join('\n'),
      )
    })
}

function changeText({ kind, customerId, destination, holder, state, note, effectiveAt }: PayoutChange): string {
  const target = kind === 'customer' ? `customer ${customerId}` : [holder, destination].filter(Boolean).join(', ')
  const doubt = state === null || state === 'ready' ? '' : `, which is ${state}: ${note ?? ''}`
  return `From ${effectiveAt.toISOString()}: ${target}${doubt}. Stop it with: ${ownCommand('payout account <hoster> --stop')}`
}

/** `switchyard payout move`: earnings become credit of the customer of the hoster. */
export function moveEarningsCommand(): Command {
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
        return { found, moved: await moveEarnings(pool, order, commandLine, Date.now()) }
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

function refuse(error: unknown): never {
  if (error instanceof ApiError) throw new Failure(error.message)
  throw error
}
