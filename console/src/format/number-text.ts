const whole = new Intl.NumberFormat('en')
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

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
  return bytes < 1_000_000 ? `${(bytes / 1_000).toFixed(1)} kB` : `${(bytes / 1_000_000).toFixed(1)} MB`
}

/** Milliseconds as 412 ms, 1.2 s, 3 min 20 s. */
export function durationText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`
}

/** A share from 0 to 1 as 0.3 %. A share that is not zero never reads 0 %. */
export function shareText(share: number): string {
  if (share > 0 && share < 0.001) return '< 0.1 %'
  if (share < 1 && share > 0.999) return '> 99.9 %'
  return `${(share * 100).toFixed(share === 0 || share === 1 ? 0 : 1)} %`
}

/** "1 request", "2 requests". */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${countText(count)} ${count === 1 ? one : many}`
}
