import { t } from '@lingui/core/macro'
import styles from './parts.module.css'

/** The window of a spend limit, by when it resets. */
export const windowText = {
  daily: t`today`,
  weekly: t`this week`,
  monthly: t`this month`,
  none: t`in all`,
} as const

/** How much of a limit is used. */
export function Meter({ label, used, limit, text }: { label: string; used: number; limit: number; text: string }) {
  const share = limit > 0 ? Math.min(1, used / limit) : 1
  return (
    <div className={styles.meter}>
      <div className={styles.meterHead}>
        <span>{label}</span>
        <span className={styles.number}>{text}</span>
      </div>
      {/* biome-ignore lint/a11y/useSemanticElements: browsers do not let the element "meter" be styled alike */}
      <div
        className={styles.bar}
        role="meter"
        aria-label={label}
        aria-valuemin={0}
        // Percent: an amount such as 1e-9 is no valid value of these attributes.
        aria-valuemax={100}
        aria-valuenow={Math.round(share * 100)}
        aria-valuetext={text}
      >
        <div
          className={styles.barFill}
          data-level={share >= 1 ? 'full' : share >= 0.8 ? 'high' : 'normal'}
          style={{ width: `${share * 100}%` }}
        />
      </div>
    </div>
  )
}
