import { type Command, InvalidArgumentError, Option } from 'commander'
import { type Sql, transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { type AlertKind, type AlertRule, alertKinds, kindsWithThreshold } from '../base/domain/alert-rule.ts'
import { usdText } from '../base/domain/money.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { systemClock } from '../base/runtime/scheduler.ts'
import { disableRule, findRule, insertTestAlert, listRules, readHistory } from '../money/alerts/alert-store.ts'
import { addRule, noteRule } from '../money/alerts/alerts.ts'
import { deliverAlert } from '../money/alerts/deliver-alert.ts'
import { createMailer } from '../money/alerts/mailer.ts'
import { createPinnedLookup } from '../wire/egress/pinned-lookup.ts'
import { amountArgument, emailArgument } from './arguments.ts'
import { createCommand, createCommandGroup, createSession } from './command.ts'
import { Failure, UsageError } from './failure.ts'
import { type Json, timeText } from './output.ts'
import { requireMasterKeys } from './require-master-key.ts'
import { resolveCustomer } from './resolve.ts'
import { table } from './table.ts'
import { withDatabase } from './with-database.ts'

export function alertCommands(): Command {
  return createCommandGroup('alert', 'Notify customers about their balance and spending', [
    add(),
    list(),
    remove(),
    test(),
    log(),
  ])
}

function add(): Command {
  return createCommand('add', 'Add an alert rule; the secret of a webhook is printed only once', [
    'alert add ada@example.com low_balance --threshold 5 --webhook https://example.com/hooks/switchyard',
    'alert add ada@example.com daily_spend --email',
    'alert add ada@example.com large_charge --threshold 1 --email billing@example.com',
  ])
    .argument('<customer>', 'e-mail or id')
    .argument('<kind>', `one of ${alertKinds.join(', ')}`, kindArgument)
    .option('--threshold <usd>', 'threshold in USD, for low_balance and large_charge', amountArgument)
    .addOption(new Option('--webhook <url>', 'send alerts to this https URL').conflicts('email'))
    .option('--email [address]', "send mail to this address; default: the customer's own", emailArgument)
    .action(async (emailOrId: string, kind: AlertKind, options) => {
      const session = createSession(options)
      const { webhook, email } = options as { webhook?: string; email?: string | true }
      if (webhook === undefined && email === undefined) throw new UsageError('Add --webhook <url> or --email.')
      const needsThreshold = kindsWithThreshold.includes(kind)
      if (needsThreshold && options.threshold === undefined)
        throw new UsageError(`${kind} needs a threshold: add --threshold <usd>.`)
      if (!needsThreshold && options.threshold !== undefined)
        throw new UsageError(`${kind} has no threshold: remove --threshold.`)
      const target = webhook ?? (typeof email === 'string' ? email : null)
      const { customer, added } = await withDatabase(session, async pool => {
        const customer = await resolveCustomer(pool, emailOrId)
        const rule = {
          kind,
          thresholdNanos: options.threshold ?? null,
          channel: webhook === undefined ? ('email' as const) : ('webhook' as const),
          target,
        }
        const settings = {
          masterKeys: await requireMasterKeys(session, pool),
          allowPrivateUrls: session.config.alerts.allowPrivateUrls,
        }
        const added = await transaction(pool, async sql => {
          const made = await addRule(sql, customer, rule, settings)
          await noteRule(sql, commandLine, 'alert.added', made.rule)
          return made
        })
        return { customer, added }
      })
      const { rule, secret } = added
      session.output.result(
        { ...ruleJson(rule), secret },
        secret ?? `Added: ${kind} alerts of ${customer.email} are mailed to ${rule.target}.`,
      )
      if (webhook === undefined && session.config.smtp.host === null) {
        session.output.note('smtp.host is not set: mails are logged instead of sent until it is.')
      }
      session.output.note(`Test it with: ${ownCommand(`alert test ${rule.ruleId}`)}`)
    })
}

function list(): Command {
  return createCommand('list', 'List alert rules', ['alert list', 'alert list ada@example.com --json'])
    .argument('[customer]', 'e-mail or id; default: all customers')
    .action(async (emailOrId: string | undefined, options) => {
      const session = createSession(options)
      const rules = await withDatabase(session, async pool =>
        listRules(pool, emailOrId === undefined ? null : (await resolveCustomer(pool, emailOrId)).customerId),
      )
      session.output.result(
        rules.map(rule => ({ ...ruleJson(rule), email: rule.email })),
        table(
          ['id', 'customer', 'kind', 'threshold USD', 'channel', 'target', 'since (UTC)'],
          rules.map(rule => [
            rule.ruleId,
            rule.email,
            rule.kind,
            rule.thresholdNanos === null ? '-' : usdText(rule.thresholdNanos),
            rule.channel,
            rule.target,
            timeText(rule.createdAt),
          ]),
          `There are no alert rules. Add one with: ${ownCommand('alert add <customer> <kind>')}`,
        ),
      )
    })
}

function remove(): Command {
  return createCommand('remove', 'Remove an alert rule and cancel its undelivered alerts', [
    'alert remove 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  ])
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = createSession(options)
      const rule = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await requireRule(sql, ruleId)
          await disableRule(sql, found.ruleId)
          await noteRule(sql, commandLine, 'alert.removed', found)
          return found
        }),
      )
      session.output.result(ruleJson(rule), `Removed the ${rule.kind} alert to ${rule.target}.`)
    })
}

function test(): Command {
  return createCommand(
    'test',
    'Send one test alert from this machine and show the outcome; fails if it is not delivered',
    ['alert test 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11'],
  )
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = createSession(options)
      const { config, output } = session
      const { rule, alertId, sent } = await withDatabase(session, async pool => {
        const rule = await requireRule(pool, ruleId)
        const alertId = (await insertTestAlert(pool, rule, Number.MAX_SAFE_INTEGER))!
        const logInfo = (fields: object, message: string) => output.note(`${message} ${JSON.stringify(fields)}`)
        const logWarning = ({ err }: { err: unknown }, message: string) =>
          output.note(`${message}: ${err instanceof Error ? err.message : String(err)}`)
        const sent = await deliverAlert(
          {
            sql: pool,
            clock: systemClock,
            masterKeys: await requireMasterKeys(session, pool),
            mailer: createMailer(config.smtp, { info: logInfo, warn: logWarning }),
            webhooks: { allowPrivate: config.alerts.allowPrivateUrls, publicLookup: createPinnedLookup() },
          },
          alertId,
        )
        return { rule, alertId, sent: sent! }
      })
      if (sent.outcome === 'failed') throw new Failure(`${rule.target}: ${sent.error}`)
      if (sent.outcome === 'logged')
        throw new Failure('The test alert was logged instead of sent: no mail server is configured. Set smtp.host.')
      output.result({ id: rule.ruleId, alert_id: alertId, ...sent }, `Delivered to ${rule.target}.`)
    })
}

function log(): Command {
  return createCommand('log', 'Show the alerts of a rule and their delivery attempts, newest first', [
    'alert log 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  ])
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = createSession(options)
      const history = await withDatabase(session, async pool =>
        readHistory(pool, (await requireRule(pool, ruleId)).ruleId, HISTORY_MAX),
      )
      session.output.result(
        history.map(({ alertId, kind, createdAt, deliveredAt, attempts }) => ({
          alert_id: alertId,
          kind,
          created_at: createdAt.toISOString(),
          delivered_at: deliveredAt?.toISOString() ?? null,
          attempts: attempts.map(attempt => ({ ...attempt, at: attempt.at.toISOString() })),
        })),
        table(
          ['alert', 'kind', 'raised (UTC)', 'attempt', 'at (UTC)', 'outcome', 'status', 'error'],
          history.flatMap(({ alertId, kind, createdAt, attempts }) => {
            const alertCells = [alertId, kind, timeText(createdAt)]
            if (attempts.length === 0) return [[...alertCells, '-', '-', 'waiting', '-', '']]
            return attempts.map(({ attempt, at, outcome, status, error }) => [
              ...alertCells,
              String(attempt),
              timeText(at),
              outcome,
              String(status ?? '-'),
              error ?? '',
            ])
          }),
          'This rule has raised no alerts yet.',
        ),
      )
    })
}

const HISTORY_MAX = 200

async function requireRule(sql: Sql, ruleId: string): Promise<AlertRule> {
  const rule = await findRule(sql, ruleId, null)
  if (rule) return rule
  throw new Failure(`There is no alert rule ${ruleId}. List rules with: ${ownCommand('alert list')}`)
}

function kindArgument(text: string): AlertKind {
  const kind = alertKinds.find(kind => kind === text)
  if (kind === undefined) throw new InvalidArgumentError(`Choose one of: ${alertKinds.join(', ')}.`)
  return kind
}

function ruleJson({
  ruleId,
  customerId,
  kind,
  thresholdNanos,
  channel,
  target,
  createdAt,
}: AlertRule): Record<string, Json> {
  return {
    id: ruleId,
    customer_id: customerId,
    kind,
    threshold_usd: thresholdNanos === null ? null : usdText(thresholdNanos),
    channel,
    target,
    created_at: createdAt.toISOString(),
  }
}
