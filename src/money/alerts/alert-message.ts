import { usd, usdText } from '../../base/domain/money.ts'
import type { DueAlert } from './alert-store.ts'

/** The message of an alert: JSON for a webhook, text for a person. Both contain the same facts. */
export interface AlertMessage {
  readonly subject: string
  readonly text: string
  readonly json: string
}

/** Writes the message of an alert. */
export function alertMessage(alert: DueAlert): AlertMessage {
  const { subject, sentence } = templates[alert.kind](fact => factText(alert.facts, fact))
  return {
    subject,
    text: `${sentence}\n\nAlert ${alert.alertId} of rule ${alert.ruleId}, ${alert.createdAt.toISOString()}.\nGET /v1/alerts lists your alert rules, DELETE /v1/alerts/${alert.ruleId} removes this one.\n`,
    json: JSON.stringify({
      type: `alert.${alert.kind}`,
      timestamp: alert.createdAt.toISOString(),
      data: {
        alert_id: alert.alertId,
        rule_id: alert.ruleId,
        customer_id: alert.customerId,
        message: sentence,
        ...Object.fromEntries(Object.entries(alert.facts).map(publicFact)),
      },
    }),
  }
}

/** The period of a key's limit. A limit with reset `none` has no entry. */
const periods: Record<string, string> = { daily: ' a day', weekly: ' a week', monthly: ' a month' }

type Fact = (name: string) => string

const templates: Record<DueAlert['kind'], (fact: Fact) => { subject: string; sentence: string }> = {
  low_balance: fact => ({
    subject: `Your balance is ${fact('balance_nanos')} USD`,
    sentence: `Your credit balance is ${fact('balance_nanos')} USD, below the ${fact('threshold_nanos')} USD you set.`,
  }),
  daily_spend: fact =>
    fact('percent') === '100'
      ? {
          subject: 'Your daily spend cap is reached',
          sentence: `Today (${fact('day')}, UTC) you spent ${fact('spent_nanos')} USD of your daily cap of ${fact('cap_nanos')} USD. Requests that would exceed the cap are refused until 00:00 UTC.`,
        }
      : {
          subject: `${fact('percent')}% of your daily spend cap is used`,
          sentence: `Today (${fact('day')}, UTC) you spent ${fact('spent_nanos')} USD of your daily cap of ${fact('cap_nanos')} USD.`,
        },
  key_limit_reached: fact => ({
    subject: `The spend limit of your key ${fact('key_name')} is reached`,
    sentence: `Your API key ${fact('key_name')} (${fact('key_hint')}) spent ${fact('spent_nanos')} USD of its limit of ${fact('limit_nanos')} USD${periods[fact('reset')] ?? ''}. Requests that would exceed the limit are refused.`,
  }),
  large_charge: fact => ({
    subject: `A request cost ${fact('cost_nanos')} USD`,
    sentence: `The request ${fact('request_id')} to ${fact('model')} cost ${fact('cost_nanos')} USD, at least the ${fact('threshold_nanos')} USD you set.`,
  }),
  test: () => ({ subject: 'A test alert', sentence: 'This is a test: your alerts arrive here.' }),
}

function factText(facts: DueAlert['facts'], name: string): string {
  const value = facts[name] ?? ''
  return name.endsWith('_nanos') ? usdText(BigInt(value)) : String(value)
}

/** Converts money to USD: `balance_nanos: "1500000000"` becomes `balance_usd: 1.5`. */
function publicFact([name, value]: [string, string | number | null]): [string, string | number | null] {
  return name.endsWith('_nanos') && value !== null
    ? [name.replace(/_nanos$/, '_usd'), usd(BigInt(value))]
    : [name, value]
}
