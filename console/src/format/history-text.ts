import type { StatusReport } from '#api/status.ts'
import { plural, shareText } from './number-text.ts'

type History = Pick<StatusReport['models'][number], 'uptime' | 'days_used' | 'outages'>

/** Says how requests fared in 90 days, on how many of them there were any, and how often a server failed. */
export function historyText({ uptime, days_used: days, outages }: History): string {
  if (uptime === null) return 'no request in 90 days'
  const failures = outages === 0 ? 'no outage' : plural(outages, 'outage')
  return `${shareText(uptime)} answered on ${plural(days, 'day')}, ${failures}`
}
