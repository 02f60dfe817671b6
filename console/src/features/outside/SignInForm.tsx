import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './outside.module.css'
import { useEntry } from './use-entry.ts'

/** @param props.email the person that was signed in before */
export function SignInForm({ email: before = '' }: { email?: string }) {
  const [email, setEmail] = useState(before)
  const [password, setPassword] = useState('')
  const entry = useEntry('sign-in')
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        entry.mutate({ email, password })
      }}
    >
      <TextInput
        label="E-mail address"
        type="email"
        name="email"
        autoComplete="username"
        required
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
        data-autofocus={before === '' || undefined}
      />
      <PasswordInput
        label="Password"
        name="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
        data-autofocus={before !== '' || undefined}
      />
      <FormProblem error={entry.error} />
      <Button type="submit" loading={entry.isPending}>
        Sign in
      </Button>
    </form>
  )
}
