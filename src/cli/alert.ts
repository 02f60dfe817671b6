import { type Command, Option } from 'commander'
import { disableRule, findRule, insertTestAlert, listRules, readHistory } from '../alerts/alert-store.ts'
import { addRule } from '../alerts/alerts.ts'
import { deliverAlert } from '../alerts/deliver-alert.ts'
import { createMailer } from '../alerts/mailer.ts'
import type { Sql } from '../db/pool.ts'
import { type AlertKind, type AlertRule, alertKinds, kindsWithThreshold } from '../domain/alert-rule.ts'
import { usdText } from '../domain/money.ts'
import { createPinnedLookup } from '../egress/pinned-lookup.ts'
import { systemClock } from '../runtime/clock.ts'
import { amountArgument, emailArgument } from './arguments.ts'
import { Failure, UsageError } from './failure.ts'
import { masterKeyOf } from './master-key-of.ts'
import { type Json, shownTime, table } from './output.ts'
import { resolveCustomer } from './resolve-customer.ts'
import { noun, sessionOf, verb } from './verb.ts'
import { withDatabase } from './with-database.ts'

export function alertCommands(): Command {
  return noun('alert', 'Tell customers of their balance and spending', [add(), list(), remove(), test(), log()])
}

function add(): Command {
  return verb('add', 'Add an alert rule; the secret of a webhook is printed once', [
    'alert add ada@example.com low_balance --threshold 5 --webhook https://example.com/hooks/switchyard',
    'alert add ada@example.com daily_spend --email',
    'alert add ada@example.com large_charge --threshold 1 --email billing@example.com',
  ])
    .argument('<customer>', 'e-mail or id')
    .argument('<kind>', `one of ${alertKinds.join(', ')}`, kindArgument)
    .option('--threshold <usd>', 'USD; of low_balance and large_charge', amountArgument)
    .addOption(new Option('--webhook <url>', 'post to this https address').conflicts('email'))
    .option('--email [address]', "mail to this address; without one, to the customer's own", emailArgument)
    .action(async (emailOrId: string, kind: AlertKind, options) => {
      const session = sessionOf(options)
      const { webhook, email } = options as { webhook?: string; email?: string | true }
      if (webhook === undefined && email === undefined) throw new UsageError('Give --webhook <url> or --email.')
      const needsThreshold = kindsWithThreshold.includes(kind)
      if (needsThreshold && options.threshold === undefined) throw new UsageError(`${kind} needs --threshold <usd>.`)
      if (!needsThreshold && options.threshold !== undefined) throw new UsageError(`${kind} takes no --threshold.`)
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
          masterKey: await masterKeyOf(session, pool),
          allowPrivateUrls: session.config.alerts.allowPrivateUrls,
        }
        return { customer, added: await addRule(pool, customer, rule, settings) }
      })
      const { rule, secret } = added
      session.output.result(
        { ...jsonOf(rule), secret },
        secret ?? `${customer.email} is told of ${kind} by mail to ${rule.target}.`,
      )
      if (webhook === undefined && session.config.smtp.host === null) {
        session.output.note('No smtp.host is set: until there is one, mails are logged instead of sent.')
      }
      session.output.note(`Try it with: switchyard alert test ${rule.ruleId}`)
    })
}

function list(): Command {
  return verb('list', 'List alert rules', ['alert list', 'alert list ada@example.com --json'])
    .argument('[customer]', 'e-mail or id; without it, the rules of all customers')
    .action(async (emailOrId: string | undefined, options) => {
      const session = sessionOf(options)
      const rules = await withDatabase(session, async pool =>
        listRules(pool, emailOrId === undefined ? null : (await resolveCustomer(pool, emailOrId)).customerId),
      )
      session.output.result(
        rules.map(rule => ({ ...jsonOf(rule), email: rule.email })),
        table(
          ['id', 'customer', 'kind', 'threshold USD', 'channel', 'target', 'since (UTC)'],
          rules.map(rule => [
            rule.ruleId,
            rule.email,
            rule.kind,
            rule.thresholdNanos === null ? '-' : usdText(rule.thresholdNanos),
            rule.channel,
            rule.target,
            shownTime(rule.createdAt),
          ]),
          'There are no alert rules. Add one with: switchyard alert add <customer> <kind>',
        ),
      )
    })
}

function remove(): Command {
  return verb('remove', 'End an alert rule, and what it did not deliver yet', [
    'alert remove 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  ])
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = sessionOf(options)
      const rule = await withDatabase(session, async pool => {
        const found = await requireRule(pool, ruleId)
        await disableRule(pool, found.ruleId)
        return found
      })
      session.output.result(jsonOf(rule), `The ${rule.kind} alert to ${rule.target} is removed.`)
    })
}

function test(): Command {
  return verb('test', 'Send a test alert from here, once, and say how it went; fails if it was not taken', [
    'alert test 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  ])
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = sessionOf(options)
      const { config, output } = session
      const { rule, alertId, sent } = await withDatabase(session, async pool => {
        const rule = await requireRule(pool, ruleId)
        const alertId = (await insertTestAlert(pool, rule, Number.MAX_SAFE_INTEGER))!
        const note = (facts: object, message: string) => output.note(`${message} ${JSON.stringify(facts)}`)
        const noteCause = ({ err }: { err: unknown }, message: string) =>
          output.note(`${message}: ${err instanceof Error ? err.message : String(err)}`)
        const sent = await deliverAlert(
          {
            sql: pool,
            clock: systemClock,
            masterKey: await masterKeyOf(session, pool),
            mailer: createMailer(config.smtp, { info: note, warn: noteCause }),
            webhooks: { allowPrivate: config.alerts.allowPrivateUrls, publicLookup: createPinnedLookup() },
          },
          alertId,
        )
        return { rule, alertId, sent: sent! }
      })
      if (sent.outcome === 'failed') throw new Failure(`${rule.target}: ${sent.error}`)
      if (sent.outcome === 'logged') throw new Failure('There is no mail server to send it with: set smtp.host.')
      output.result({ id: rule.ruleId, alert_id: alertId, ...sent }, `${rule.target} took it.`)
    })
}

function log(): Command {
  return verb('log', 'What an alert rule told, and how that went, newest first', [
    'alert log 0d2f9e0c-4b4a-4f0e-9f52-6f2f7f3b8a11',
  ])
    .argument('<alert>', 'id of the rule')
    .action(async (ruleId: string, options) => {
      const session = sessionOf(options)
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
            const own = [alertId, kind, shownTime(createdAt)]
            if (attempts.length === 0) return [[...own, '-', '-', 'waiting', '-', '']]
            return attempts.map(({ attempt, at, outcome, status, error }) => [
              ...own,
              String(attempt),
              shownTime(at),
              outcome,
              String(status ?? '-'),
              error ?? '',
            ])
          }),
          'This rule told nothing yet.',
        ),
      )
    })
}

const HISTORY_MAX = 200

async function requireRule(sql: Sql, ruleId: string): Promise<AlertRule> {
  const rule = await findRule(sql, ruleId, null)
  if (rule) return rule
  throw new Failure(`There is no alert rule ${ruleId}. List them with: switchyard alert list`)
}

function kindArgument(text: string): AlertKind {
  const kind = alertKinds.find(kind => kind === text)
  if (kind === undefined) throw new UsageError(`There is no alert ${text}. There are: ${alertKinds.join(', ')}`)
  return kind
}

function jsonOf({
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
