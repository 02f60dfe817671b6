import { balanceText, chargeText, exactUsd, roundUsd } from '../format/usd-text.ts'
import styles from './parts.module.css'

/** A balance with two decimals. The exact amount appears on hover. */
export function Balance({ usd }: { usd: number }) {
  return (
    <span className={styles.number} title={`${exactUsd(usd)} USD`}>
      {balanceText(usd)}
    </span>
  )
}

/** A charge with all its decimals. In a column, the decimal points stand below each other. */
export function Charge({ usd }: { usd: number }) {
  const [whole, decimals] = chargeText(usd).split('.')
  return (
    <span className={styles.charge}>
      <span>{whole}</span>
      <span className={styles.chargeDecimals}>.{decimals}</span>
    </span>
  )
}

/** A sum of a report. The exact amount appears on hover. Zero is a dash, so that the other amounts stand out. */
export function Amount({ usd }: { usd: number }) {
  return (
    <span className={styles.number} title={`${exactUsd(usd)} USD`}>
      {usd === 0 ? '–' : roundUsd(usd)}
    </span>
  )
}
