import { t } from '@lingui/core/macro'
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useState } from 'react'
import { needsCode } from '../../api/request.ts'
import { FactorFields } from '../../parts/FactorFields.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './outside.module.css'
import { useEntry } from './use-entry.ts'

/** @param props.email the person that was signed in before */
export function SignInForm({ email: before = '' }: { email?: string }) {
  const [email, setEmail] = useState(before)
  const [password, setPassword] = useState('')
  const [code, setCode] = useState('')
  const [isCodeAsked, setCodeAsked] = useState(false)
  const entry = useEntry('sign-in')
  if (needsCode(entry.error) && !isCodeAsked) setCodeAsked(true)
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        entry.mutate({ email, password, ...(isCodeAsked && code !== '' && { code }) })
      }}
    >
      <TextInput
        label={t`E-mail address`}
        type="email"
        name="email"
        autoComplete="username"
        required
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
        data-autofocus={before === '' || undefined}
      />
      <PasswordInput
        label={t`Password`}
        name="password"
        autoComplete="current-password"
        required
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
        data-autofocus={before !== '' || undefined}
      />
      {isCodeAsked && (
        <FactorFields code={code} onCode={setCode} onPasskey={passkey => entry.mutate({ email, password, passkey })} />
      )}
      <FormProblem error={needsCode(entry.error) ? null : entry.error} />
      <Button type="submit" loading={entry.isPending}>{t`Sign in`}</Button>
    </form>
  )
}
