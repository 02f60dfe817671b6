import { t } from '@lingui/core/macro'
import { Plural, Trans } from '@lingui/react/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { lazy, Suspense, useState } from 'react'
import type { RecoveryCodes, TotpStart } from '#api/factors.ts'
import { fromGateway } from '../../api/gateway-link.ts'
import { factorsQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'

import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { CodeField } from '../../parts/CodeField.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { StoredCodes } from './StoredCodes.tsx'
import styles from './settings.module.css'

/** Loads with the first secret: few people add an app. */
const QrCode = lazy(fromGateway(async () => ({ default: (await import('./QrCode.tsx')).QrCode })))

/** The authenticator app of the person, and its recovery codes. */
export function SecondFactor() {
  const factors = useQuery(factorsQuery)
  const [started, setStarted] = useState<TotpStart | null>(null)
  const [code, setCode] = useState('')
  const [codes, setCodes] = useState<readonly string[] | null>(null)
  const start = useWrite<void, TotpStart>(() => ({ method: 'POST', path: 'factors/totp/start', body: {} }), {
    areas: [],
    onDone: setStarted,
  })
  const show = ({ recovery_codes }: RecoveryCodes) => {
    setStarted(null)
    setCode('')
    setCodes(recovery_codes)
  }
  const add = useWrite<void, RecoveryCodes>(() => ({ method: 'POST', path: 'factors/totp', body: { code } }), {
    areas: ['factors', 'sessions', 'session'],
    onDone: show,
    showsError: true,
  })
  const renew = useWrite<void, RecoveryCodes>(() => ({ method: 'POST', path: 'factors/recovery-codes', body: {} }), {
    areas: ['factors'],
    onDone: show,
  })
  const remove = useWrite(() => ({ method: 'DELETE', path: 'factors/totp' }), {
    areas: ['factors', 'session'],
    done: t`The app is removed.`,
  })
  return (
    <Panel title={t`Authenticator app`}>
      <Loaded query={factors} height={80}>
        {({ has_totp, recovery_codes_left }) => (
          <div className={styles.form}>
            {codes !== null && <StoredCodes codes={codes} onStored={() => setCodes(null)} />}
            {codes === null && has_totp && (
              <>
                <p>
                  <Trans>
                    Signing in takes a code of your app.{' '}
                    <Plural value={recovery_codes_left} one="# recovery code" other="# recovery codes" /> left.
                  </Trans>
                </p>
                <div>
                  <Button
                    variant="default"
                    loading={renew.isPending}
                    onClick={() => renew.mutate()}
                  >{t`Make new recovery codes`}</Button>
                </div>
                <div>
                  <Button
                    variant="default"
                    loading={remove.isPending}
                    onClick={() => remove.mutate()}
                  >{t`Remove the app`}</Button>
                </div>
              </>
            )}
            {codes === null && !has_totp && started === null && (
              <>
                <p>{t`With an app, a stolen password is not enough to sign in. Operators need an app or a passkey.`}</p>
                <div>
                  <Button loading={start.isPending} onClick={() => start.mutate()}>{t`Add an app`}</Button>
                </div>
              </>
            )}
            {started !== null && (
              <form
                className={styles.form}
                onSubmit={event => {
                  event.preventDefault()
                  add.mutate()
                }}
              >
                <p>{t`Scan this with your app. Then type the code that the app shows.`}</p>
                <Suspense fallback={<svg width="200" height="200" aria-hidden="true" />}>
                  <QrCode text={started.uri} label={t`The secret for a camera`} />
                </Suspense>
                <p className={styles.hint}>{t`Without a camera, type this secret into the app:`}</p>
                <CodeBlock code={started.secret} what={t`the secret`} />
                <a href={started.uri}>{t`Open in an app on this device`}</a>
                <CodeField description={t`From your authenticator app.`} value={code} onChange={setCode} />
                <FormProblem error={add.error} />
                <div className={styles.buttons}>
                  <Button type="submit" loading={add.isPending}>{t`Add the app`}</Button>
                  <Button variant="default" onClick={() => setStarted(null)}>{t`Cancel`}</Button>
                </div>
              </form>
            )}
          </div>
        )}
      </Loaded>
    </Panel>
  )
}
