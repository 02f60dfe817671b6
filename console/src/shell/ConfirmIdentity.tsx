import { Button, Modal, PasswordInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { registerConfirmation } from '../api/confirmation.ts'
import { factorsQuery } from '../api/queries.ts'
import { request } from '../api/request.ts'
import { CodeField } from '../parts/CodeField.tsx'
import { FormProblem } from '../parts/FormProblem.tsx'

/** Asks for the password, or the code of people with an authenticator app, before a change that matters, and lets the change go on. */
export function ConfirmIdentity() {
  const [isOpen, setOpen] = useState(false)
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const factors = useQuery({ ...factorsQuery, enabled: isOpen })
  const hasApp = factors.data?.has_totp === true
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
  const confirm = async () => {
    try {
      await request('POST', 'confirm', { body: hasApp ? { code } : { password } })
      end(true)
    } catch (problem) {
      setError(problem as Error)
    }
  }
  return (
    <Modal
      opened={isOpen}
      onClose={() => end(false)}
      title={hasApp ? 'Type a code' : 'Type your password again'}
      zIndex={400}
    >
      <form
        style={{ display: 'grid', gap: 12 }}
        onSubmit={event => {
          event.preventDefault()
          void confirm()
        }}
      >
        <p>This change matters, and your last confirmation is more than 10 minutes old.</p>
        {hasApp ? (
          <CodeField value={code} onChange={setCode} />
        ) : (
          <PasswordInput
            label="Password"
            autoComplete="current-password"
            required
            value={password}
            onChange={event => setPassword(event.currentTarget.value)}
            data-autofocus
          />
        )}
        <FormProblem error={error} />
        <Button type="submit">Continue</Button>
      </form>
    </Modal>
  )
}
