import type { Command } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { usdText } from '../base/domain/money.ts'
import { noSpend } from '../base/domain/spend.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { quoteForShell } from '../base/runtime/quote-for-shell.ts'
import { createCustomer, listCustomers, setAccountTier } from '../money/accounts/customers.ts'
import { noteCustomerChange, noteCustomerCreated, readCustomerState } from '../money/accounts/note-customer.ts'
import { listBalances } from '../money/ledger/accounts/read-balance.ts'
import { spendByCustomer } from '../money/usage/spend.ts'
import type { Config } from '../start/config/config.ts'
import { emailArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { customerJson, spendJson } from './customer-figures.ts'
import { inviteCommand } from './customer-invite.ts'
import { customerLimitsCommand } from './customer-limits.ts'
import { customerMembersCommand, limitMemberCommand } from './customer-members.ts'
import { showCustomerCommand } from './customer-show.ts'
import {
  deleteCustomerCommand,
  disableCustomerCommand,
  enableCustomerCommand,
  exportCustomerCommand,
} from './customer-state.ts'
import { Failure, UsageError } from './failure.ts'
import { DELETED, timeText } from './output.ts'
import { resolveCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function customerCommands(): Command {
  return createCommandGroup('customer', 'Add, list, invite people to, limit, disable and delete customers', [
    addCustomer(),
    list(),
    showCustomerCommand(),
    inviteCommand(),
    tier(),
    customerLimitsCommand(),
    customerMembersCommand(),
    limitMemberCommand(),
    disableCustomerCommand(),
    enableCustomerCommand(),
    deleteCustomerCommand(),
    exportCustomerCommand(),
  ])
}

function addCustomer(): Command {
  return createCommand('add', 'Add a customer with the signup credit', [
    'customer add ada@example.com',
    'customer add ada@example.com --tier scale --json',
  ])
    .argument('<email>', 'e-mail address, unique among customers', emailArgument)
    .option('--tier <tier>', 'account tier; default: signup.tier in the configuration')
    .action(async (email: string, options) => {
      const session = createSession(options)
      const { config, output } = session
      const customer = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          if (options.tier !== undefined) requireTier(config, options.tier)
          const added = await createCustomer(sql, config, { email, accountTier: options.tier })
          if (added) await noteCustomerCreated(sql, commandLine, added, config.signup.creditNanos)
          return added
        }),
      )
      if (!customer) throw new Failure(`The customer ${email} already exists.`)
      const { customerId, accountTier } = customer
      const balance = usdText(config.signup.creditNanos)
      output.result(
        { customer_id: customerId, email, account_tier: accountTier, balance_usd: balance },
        table(['id', 'e-mail', 'tier', 'balance USD'], [[customerId, email, accountTier, balance]], ''),
      )
      output.note(`Issue an API key with: ${ownCommand(`key issue ${quoteForShell(email)} --name <name>`)}`)
    })
}

function list(): Command {
  return createCommand('list', 'List customers, their balances and what they have spent', [
    'customer list',
    'customer list --deleted --json',
  ])
    .option('--deleted', 'list deleted customers too')
    .action(async options => {
      const session = createSession(options)
      const [customers, balances, spend] = await withDatabase(session, pool =>
        Promise.all([listCustomers(pool), listBalances(pool), spendByCustomer(pool, null, Date.now())]),
      )
      const rows = customers
        .filter(({ deletedAt }) => deletedAt === null || options.deleted === true)
        .map(customer => ({
          ...customerJson(customer),
          balance_usd: usdText(balances.get(customer.customerId) ?? 0n),
          spend: spendJson(spend.get(customer.customerId) ?? noSpend),
        }))
      session.output.result(
        rows,
        table(
          ['id', 'e-mail', 'tier', 'balance USD', 'month USD', 'total USD', 'since (UTC)', 'state'],
          rows.map(row => [
            row.customer_id,
            row.email ?? DELETED,
            row.account_tier,
            row.balance_usd,
            row.spend.month_usd,
            row.spend.total_usd,
            timeText(new Date(row.created_at)),
            row.state,
          ]),
          `There are no customers yet. Add one with: ${ownCommand('customer add <email>')}`,
        ),
      )
    })
}

function tier(): Command {
  return createCommand('tier', 'Move a customer to another account tier', ['customer tier ada@example.com scale'])
    .argument('<customer>', 'e-mail or id')
    .argument('<tier>', 'one of account_tiers in the configuration')
    .action(async (emailOrId: string, accountTier: string, options) => {
      const session = createSession(options)
      const customer = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          requireTier(session.config, accountTier)
          const found = await resolveCustomer(sql, emailOrId)
          const before = await readCustomerState(sql, found)
          await setAccountTier(sql, found.customerId, accountTier)
          await noteCustomerChange(sql, commandLine, found, { before, after: { ...before, tier: accountTier } })
          return found
        }),
      )
      session.output.result(
        { customer_id: customer.customerId, email: customer.email, account_tier: accountTier },
        `${customer.email} is now ${accountTier} (was ${customer.accountTier}).`,
      )
    })
}

function requireTier({ accountTiers }: Config, tier: string): void {
  if (Object.hasOwn(accountTiers, tier)) return
  throw new UsageError(`Unknown account tier ${tier}. Choose one of: ${Object.keys(accountTiers).join(', ')}.`)
}
