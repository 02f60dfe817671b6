import { t } from '@lingui/core/macro'
import { shareText } from '../../format/number-text.ts'
import { roundUsd } from '../../format/usd-text.ts'
import { Amount } from '../../parts/Money.tsx'
import styles from './operator.module.css'

interface MarginFigures {
  readonly revenue_usd: number | null
  readonly margin_usd: number | null
  /** The revenue that the margin leaves out. */
  readonly unknown_cost_usd: number | null
}

/** A margin with the share of the revenue that it is about, if that is not all; a dash where no cost is known. */
export function Margin({ of }: { of: MarginFigures }) {
  const { revenue_usd: revenue, margin_usd: margin, unknown_cost_usd: unknown } = of
  if (margin === null) return '–'
  return (
    <>
      <Amount usd={margin} />
      {revenue !== null && unknown !== null && unknown > 0 && (
        <span className={styles.partOf}>{t`of ${shareText((revenue - unknown) / revenue)} of the revenue`}</span>
      )}
    </>
  )
}

/** Says how much of the revenue a margin is about; null: all of it. */
export function knownShareText({ revenue_usd: revenue, unknown_cost_usd: unknown }: MarginFigures): string | null {
  if (revenue === null || unknown === null || unknown <= 0) return null
  return t`The cost is known of ${roundUsd(revenue - unknown)} of the ${roundUsd(revenue)} USD of revenue. The margin leaves the rest out. Enter costs under “Providers”.`
}
