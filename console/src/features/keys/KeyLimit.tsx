import type { Key } from '#api/keys.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { Meter } from '../../parts/Meter.tsx'
import styles from './keys.module.css'

const windows = {
  daily: { spent: 'today_usd', label: 'today' },
  weekly: { spent: 'week_usd', label: 'this week' },
  monthly: { spent: 'month_usd', label: 'this month' },
  none: { spent: 'total_usd', label: 'in all' },
} as const

/** How much of its limit a key has spent. */
export function KeyLimit({ keyShown: { limit_usd, limit_reset, usage } }: { keyShown: Key }) {
  if (limit_usd === null) return <span className={styles.hint}>no limit of its own</span>
  const { spent, label } = windows[limit_reset]
  const text = `${roundUsd(usage[spent])} of ${roundUsd(limit_usd)} USD`
  return (
    <div className={styles.limit}>
      <Meter label={label} used={usage[spent]} limit={limit_usd} text={text} />
    </div>
  )
}
