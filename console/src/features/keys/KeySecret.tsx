import { t } from '@lingui/core/macro'
import type { ReactNode } from 'react'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { SecretDialog } from '../../parts/SecretDialog.tsx'
import styles from './keys.module.css'

/** Shows a new key once, with the lines that programs need. */
export function KeySecret({
  title,
  secret,
  onClose,
  children,
}: {
  title: string
  secret: string
  onClose: () => void
  children?: ReactNode
}) {
  return (
    <SecretDialog title={title} secret={secret} onClose={onClose}>
      {children}
      <div className={styles.buttons}>
        <CopyButton label={t`Copy for .env`} text={envLines(secret)} what={t`lines for .env`} />
        <CopyButton label={t`Copy as curl`} text={curlLine(secret)} what={t`a curl command`} />
      </div>
    </SecretDialog>
  )
}

function envLines(key: string): string {
  return `OPENAI_API_KEY=${key}\nOPENAI_BASE_URL=${location.origin}/v1\n`
}

function curlLine(key: string): string {
  return `curl ${location.origin}/v1/models -H 'Authorization: Bearer ${key}'`
}
