import { type Command, InvalidArgumentError } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { ApiError } from '../base/domain/errors.ts'
import { parsePricePerMillion } from '../base/domain/money.ts'
import { type PriceRules, parsePercent, type WrittenModelPrice } from '../base/domain/price-group.ts'
import { assignToCustomer, assignToTier, changePriceGroup } from '../money/accounts/change-price-group.ts'
import { listPriceGroups } from '../money/accounts/price-groups.ts'
import { textArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import type { Json } from './output.ts'
import { resolveCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function priceGroupCommands(): Command {
  return createCommandGroup('price-group', 'Manage the prices of customers and account tiers', [
    list(),
    set(),
    assign(),
    remove(),
  ])
}

function list(): Command {
  return createCommand('list', 'List the price groups', ['price-group list']).action(async options => {
    const session = createSession(options)
    const groups = await withDatabase(session, listPriceGroups)
    session.output.result(
      groups.map(({ name, version, rules, tiers, customers }) => ({
        ...{ name, version, percent: rules.percent, models: rules.models as unknown as Json, tiers },
        customers: Number(customers),
      })),
      table(
        ['name', 'version', 'percent', 'models', 'tiers', 'customers'],
        groups.map(({ name, version, rules, tiers, customers }) => [
          ...[name, String(version), rules.percent, String(Object.keys(rules.models).length)],
          ...[tiers.join(',') || '-', String(customers)],
        ]),
        'There are no price groups.',
      ),
    )
  })
}

function set(): Command {
  return createCommand('set', 'Add a price group, or replace the rules of one', [
    'price-group set partners --percent -10 --reason "Contract of 2026"',
    'price-group set partners --percent -10 --model gpt-6=-25 --model-price llama-4=0.2,0.6',
  ])
    .argument('<name>', 'lower-case letters, digits, - _ and .', nameArgument)
    .option(
      '--percent <percent>',
      'for models without a rule: -10 is a discount, 15 a markup; default: 0',
      percentArgument,
      '0',
    )
    .option('--model <id=percent>', 'another percentage for a model; may be repeated', modelPercent, {})
    .option(
      '--model-price <id=input,output>',
      'a price of its own, USD per million tokens; may be repeated',
      modelPrice,
      {},
    )
    .option('--reason <text>', 'for the audit log; default: Set on the command line.', textArgument)
    .action(async (name: string, { percent, model, modelPrice, reason = 'Set on the command line.', ...options }) => {
      const session = createSession(options)
      const rules: PriceRules = { percent, models: { ...model, ...modelPrice } }
      const written = await withDatabase(session, pool =>
        transaction(pool, sql => changePriceGroup(sql, commandLine, { name, rules, reason, version: undefined })),
      ).catch(refuse)
      session.output.result({ ...written }, `The price group ${name} has version ${written.version}.`)
    })
}

function assign(): Command {
  return createCommand('assign', 'Give a customer or an account tier a price group', [
    'price-group assign partners --customer ada@example.com',
    'price-group assign none --tier scale',
  ])
    .argument('<name>', 'name of the group; none: no group', nameArgument)
    .option('--customer <customer>', 'e-mail or id', textArgument)
    .option('--tier <tier>', 'account tier', textArgument)
    .option('--reason <text>', 'for the audit log; default: Set on the command line.', textArgument)
    .action(async (group: string, { customer, tier, reason = 'Set on the command line.', ...options }) => {
      const session = createSession(options)
      if ((customer === undefined) === (tier === undefined)) throw new UsageError('Give --customer or --tier.')
      const name = group === 'none' ? null : group
      await withDatabase(session, pool =>
        transaction(pool, async sql => {
          if (tier !== undefined && !Object.hasOwn(session.config.accountTiers, tier))
            throw new Failure(`There is no account tier "${tier}".`)
          if (tier !== undefined) return assignToTier(sql, commandLine, { tier, name, reason })
          const { customerId } = await resolveCustomer(sql, customer)
          return assignToCustomer(sql, commandLine, { customerId, name, reason })
        }),
      ).catch(refuse)
      const to = tier === undefined ? customer : `the tier ${tier}`
      session.output.result(
        { price_group: name },
        `${to} has ${name === null ? 'no price group of its own' : `the price group ${name}`}.`,
      )
    })
}

function remove(): Command {
  return createCommand('remove', 'Remove a price group that no customer and no tier has', [
    'price-group remove partners',
  ])
    .argument('<name>', 'name of the group', nameArgument)
    .option('--reason <text>', 'for the audit log; default: Removed on the command line.', textArgument)
    .action(async (name: string, { reason = 'Removed on the command line.', ...options }) => {
      const session = createSession(options)
      const written = await withDatabase(session, pool =>
        transaction(pool, sql => changePriceGroup(sql, commandLine, { name, rules: null, reason, version: undefined })),
      ).catch(refuse)
      session.output.result({ ...written, removed: true }, `Removed the price group ${name}.`)
    })
}

function refuse(error: unknown): never {
  if (error instanceof ApiError) throw new Failure(error.message)
  throw error
}

function nameArgument(text: string): string {
  if (!/^[a-z0-9][a-z0-9._-]{0,62}$/.test(text))
    throw new InvalidArgumentError('It must be a lower-case name: letters, digits, - _ and .')
  return text
}

function percentArgument(text: string): string {
  if (parsePercent(text) === undefined)
    throw new InvalidArgumentError('It must be percent with at most two decimals, -99.99 to 1000.')
  return text
}

type Rules = Record<string, WrittenModelPrice>

function modelPercent(text: string, rules: Rules): Rules {
  const [id, percent] = splitRule(text)
  return { ...rules, [id]: { percent: percentArgument(percent) } }
}

function modelPrice(text: string, rules: Rules): Rules {
  const [id, prices] = splitRule(text)
  const [input = '', output = '', ...rest] = prices.split(',')
  if (rest.length > 0 || [input, output].some(each => parsePricePerMillion(each) === undefined))
    throw new InvalidArgumentError('It must be <model>=<input>,<output> in USD per million tokens.')
  return { ...rules, [id]: { price_per_million_usd: { input, output } } }
}

/** At the last equals sign: ids of models may have one. */
function splitRule(text: string): [id: string, value: string] {
  const at = text.lastIndexOf('=')
  if (at < 1) throw new InvalidArgumentError('It must be <model>=<value>.')
  return [text.slice(0, at), text.slice(at + 1)]
}
