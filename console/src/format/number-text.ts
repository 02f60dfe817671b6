import { t } from '@lingui/core/macro'
import { formatLocale } from '../texts/i18n.ts'

const whole = new Intl.NumberFormat(formatLocale)
const oneDecimal = new Intl.NumberFormat(formatLocale, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
const compact = new Intl.NumberFormat(formatLocale, { notation: 'compact', maximumFractionDigits: 1 })

export function countText(count: number): string {
  return whole.format(count)
}

/** 12.4K, 3M: for axes and tiles. */
export function compactCount(count: number): string {
  return compact.format(count)
}

/** Bytes as 812 B, 12.4 kB, 3.1 MB. */
export function bytesText(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`
  return bytes < 1_000_000 ? `${oneDecimal.format(bytes / 1_000)} kB` : `${oneDecimal.format(bytes / 1_000_000)} MB`
}

/** Milliseconds as 412 ms, 1.2 s, 3 min 20 s. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${oneDecimal.format(ms / 1_000)} s`
  return t`${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`
}

/** A share from 0 to 1 as 0.3 %. A share that is not zero never reads 0 %. */
export function shareText(share: number): string {
  if (share > 0 && share < 0.001) return `< ${oneDecimal.format(0.1)} %`
  if (share < 1 && share > 0.999) return `> ${oneDecimal.format(99.9)} %`
  return `${(share === 0 || share === 1 ? whole : oneDecimal).format(share * 100)} %`
}
