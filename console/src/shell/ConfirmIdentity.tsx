import { Button, Modal, PasswordInput } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import { registerConfirmation } from '../api/confirmation.ts'
import { request } from '../api/request.ts'
import { FormProblem } from '../parts/FormProblem.tsx'

/** Asks for the password before a change that matters, and lets the change go on. */
export function ConfirmIdentity() {
  const [isOpen, setOpen] = useState(false)
  const [password, setPassword] = useState('')
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
    setError(null)
    decide.current(isConfirmed)
  }
  const confirm = async () => {
    try {
      await request('POST', 'confirm', { body: { password } })
      end(true)
    } catch (problem) {
      setError(problem as Error)
    }
  }
  return (
    <Modal opened={isOpen} onClose={() => end(false)} title="Type your password again" zIndex={400}>
      <form
        style={{ display: 'grid', gap: 12 }}
        onSubmit={event => {
          event.preventDefault()
          void confirm()
        }}
      >
        <p>This change matters, and you typed your password more than 10 minutes ago.</p>
        <PasswordInput
          label="Password"
          autoComplete="current-password"
          required
          value={password}
          onChange={event => setPassword(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={error} />
        <Button type="submit">Continue</Button>
      </form>
    </Modal>
  )
}
