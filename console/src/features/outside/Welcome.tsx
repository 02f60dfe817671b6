import { t } from '@lingui/core/macro'
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { useEntry } from './use-entry.ts'
import { useLinkSecret } from './use-link-secret.ts'

/** Where the link of an operator leads: sets the password, and the e-mail address at the first time. */
export function Welcome() {
  const token = useLinkSecret()
  const navigate = useNavigate()
  const [email, setEmail] = useState('')
  const [password, setPassword] = useState('')
  const entry = useEntry('welcome', () => void navigate({ to: '/account/second-factor', replace: true }))
  return (
    <OutsideCard title={t`Set your password`}>
      <p>{t`This link works once. Afterwards you sign in with your e-mail address and this password.`}</p>
      <form
        className={styles.form}
        onSubmit={event => {
          event.preventDefault()
          entry.mutate({ token, password, ...(email.trim() !== '' && { email }) })
        }}
      >
        <TextInput
          label={t`E-mail address`}
          description={t`You sign in with it. Leave it empty to keep the one of your account; the first one is you@localhost.`}
          type="email"
          autoComplete="username"
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
        />
        <PasswordInput
          label={t`Password`}
          description={t`At least 12 characters, such as four words.`}
          autoComplete="new-password"
          required
          value={password}
          onChange={event => setPassword(event.currentTarget.value)}
          data-autofocus
        />
        <FormProblem error={entry.error} />
        <Button type="submit" loading={entry.isPending}>{t`Continue`}</Button>
      </form>
    </OutsideCard>
  )
}
