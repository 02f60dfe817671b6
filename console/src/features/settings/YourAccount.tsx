import { t } from '@lingui/core/macro'
import { Page } from '../../parts/Page.tsx'
import { useSession } from '../../shell/use-session.ts'
import { Security } from './Security.tsx'
import { StoredData } from './StoredData.tsx'
import styles from './settings.module.css'
import { You } from './You.tsx'

/** The person: name, address, and the ways to sign in. */
export function YourAccount() {
  const { needs_second_factor: needsFactor, first_factor_command: command } = useSession()
  return (
    <Page title={t`Your account`}>
      {needsFactor && command === null && (
        <p
          className={styles.hint}
          role="note"
        >{t`Your role on this installation needs a second factor. Add a passkey or an authenticator app.`}</p>
      )}
      <You />
      <Security />
      <StoredData />
    </Page>
  )
}
