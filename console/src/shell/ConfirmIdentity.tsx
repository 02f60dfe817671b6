import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Modal, PasswordInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { registerConfirmation } from '../api/confirmation.ts'
import { consoleConfigQuery, factorsQuery } from '../api/queries.ts'
import { request } from '../api/request.ts'
import { visitProvider } from '../api/visit-provider.ts'
import { FactorFields } from '../parts/FactorFields.tsx'
import { FormProblem } from '../parts/FormProblem.tsx'

/**
 * Asks a person to confirm a change that matters: with the second factor, or with the password if there is none. The
 * change then goes on.
 */
export function ConfirmIdentity() {
  const [isOpen, setOpen] = useState(false)
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const factors = useQuery({ ...factorsQuery, enabled: isOpen })
  const { data: config } = useQuery({ ...consoleConfigQuery, enabled: isOpen })
  const {
    has_totp: hasApp = false,
    passkeys = [],
    identities = [],
    has_password: hasPassword = true,
  } = factors.data ?? {}
  const hasFactor = hasApp || passkeys.length > 0
  const services = (config?.oidc_providers ?? []).filter(({ id }) => identities.some(each => each.provider === id))
  const [error, setError] = useState<Error | null>(null)
  const decide = useRef<(isConfirmed: boolean) => void>(() => {})
  useEffect(
    () =>
      registerConfirmation(
        () =>
          new Promise(resolve => {
            decide.current = resolve
            setOpen(true)
          }),
      ),
    [],
  )
  const end = (isConfirmed: boolean) => {
    setOpen(false)
    setPassword('')
    setCode('')
    setError(null)
    decide.current(isConfirmed)
  }
  const confirm = async (passkey?: unknown) => {
    try {
      const typed = hasFactor ? { code } : { password }
      await request('POST', 'confirm', { body: passkey === undefined ? typed : { passkey } })
      end(true)
    } catch (problem) {
      setError(problem as Error)
    }
  }
  return (
    <Modal
      opened={isOpen}
      onClose={() => end(false)}
      title={hasFactor ? t`Confirm with your second factor` : t`Type your password again`}
      zIndex={400}
    >
      <form
        style={{ display: 'grid', gap: 12 }}
        onSubmit={event => {
          event.preventDefault()
          void confirm()
        }}
      >
        <p>{t`This change matters, and your last confirmation is more than 10 minutes old.`}</p>
        {hasFactor && (
          <FactorFields
            code={code}
            onCode={setCode}
            onPasskey={passkey => void confirm(passkey)}
            start="passkeys/confirm/start"
          />
        )}
        {!hasFactor && hasPassword && (
          <PasswordInput
            label={t`Password`}
            autoComplete="current-password"
            required
            value={password}
            onChange={event => setPassword(event.currentTarget.value)}
            data-autofocus
          />
        )}
        <FormProblem error={error} />
        {(hasFactor || hasPassword) && <Button type="submit">{t`Continue`}</Button>}
        {!hasFactor && !hasPassword && (
          <>
            <p>{t`You have no password. Sign in again, then repeat the change.`}</p>
            {services.map(({ id, name }) => (
              <Button key={id} onClick={() => void visitProvider('oidc/confirm/start', id).catch(setError)}>
                <Trans>Sign in again with {name}</Trans>
              </Button>
            ))}
          </>
        )}
      </form>
    </Modal>
  )
}
