import { plural, t } from '@lingui/core/macro'
import type { StatusReport } from '#api/status.ts'
import { shareText } from './number-text.ts'

type History = Pick<StatusReport['models'][number], 'uptime' | 'days_used' | 'outages'>

/** Says how requests fared in 90 days, on how many of them there were any, and how often a server failed. */
export function historyText({ uptime, days_used: days, outages }: History): string {
  if (uptime === null) return t`no request in 90 days`
  const failures = outages === 0 ? t`no outage` : plural(outages, { one: '# outage', other: '# outages' })
  return t`${shareText(uptime)} answered on ${plural(days, { one: '# day', other: '# days' })}, ${failures}`
}
