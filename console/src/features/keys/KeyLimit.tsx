import { Button } from '@mantine/core'
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

/**
 * How much of its limit a key has spent.
 *
 * @param props.onSet is given to people who may set one
 */
export function KeyLimit({
  keyShown: { name, limit_usd, limit_reset, usage },
  onSet,
}: {
  keyShown: Key
  onSet?: (() => void) | undefined
}) {
  if (limit_usd === null) {
    if (onSet === undefined) return <span className={styles.hint}>no limit of its own</span>
    return (
      <Button variant="subtle" size="compact-sm" className={styles.setLimit} onClick={onSet}>
        Set a limit<span className="visually-hidden"> for {name}</span>
      </Button>
    )
  }
  const { spent, label } = windows[limit_reset]
  const text = `${roundUsd(usage[spent])} of ${roundUsd(limit_usd)} USD`
  return (
    <div className={styles.limit}>
      <Meter label={label} used={usage[spent]} limit={limit_usd} text={text} />
    </div>
  )
}
