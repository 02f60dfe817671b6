import { t } from '@lingui/core/macro'
import styles from './parts.module.css'

export type ProviderName = 'local' | 'hoster' | 'cloud' | 'none'

export const providerNames: Readonly<Record<ProviderName, string>> = {
  local: t`local`,
  hoster: t`hoster`,
  cloud: t`cloud`,
  none: t`no server`,
}

/** A kind of provider by shape, colour and word. */
export function Provider({ kind, label = providerNames[kind] }: { kind: ProviderName; label?: string }) {
  return (
    <span className={styles.provider}>
      <ProviderMark kind={kind} />
      {label}
    </span>
  )
}

/** The shape alone, for charts. A dot is local, a diamond a hoster, a triangle a cloud. */
export function ProviderMark({ kind }: { kind: ProviderName }) {
  return (
    <svg className={`${styles.mark} ${styles[kind]}`} viewBox="0 0 10 10" aria-hidden="true">
      {kind === 'hoster' && <path d="M5 0l5 5-5 5-5-5z" />}
      {kind === 'cloud' && <path d="M5 .5l5 9H0z" />}
      {(kind === 'local' || kind === 'none') && <circle cx="5" cy="5" r="4.4" />}
    </svg>
  )
}
