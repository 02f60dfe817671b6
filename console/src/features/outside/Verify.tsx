import { t } from '@lingui/core/macro'
import { Button, PasswordInput, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { request } from '../../api/request.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { LinkLoaded } from './LinkLoaded.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { useEntry } from './use-entry.ts'
import { useLinkSecret } from './use-link-secret.ts'

/** Where the link of a sign-up leads: makes the account. */
export function Verify() {
  const token = useLinkSecret()
  const link = useQuery({
    queryKey: ['invite', 'sign-up', token],
    queryFn: () => request<{ email: string }>('POST', 'sign-up/link', { body: { token } }),
    retry: false,
    enabled: token !== '',
  })
  return (
    <OutsideCard title={t`Make your account`}>
      <LinkLoaded token={token} query={link}>
        {({ email }) => <VerifyForm token={token} email={email} />}
      </LinkLoaded>
    </OutsideCard>
  )
}

function VerifyForm({ token, email }: { token: string; email: string }) {
  const navigate = useNavigate()
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const entry = useEntry('verify', () => void navigate({ to: '/', replace: true }))
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        entry.mutate({ token, password, ...(name.trim() !== '' && { name }) })
      }}
    >
      <TextInput label={t`E-mail address`} value={email} readOnly autoComplete="username" />
      <TextInput
        label={t`Your name`}
        autoComplete="name"
        value={name}
        onChange={event => setName(event.currentTarget.value)}
      />
      <PasswordInput
        label={t`New password`}
        description={t`At least 12 characters, such as four words.`}
        autoComplete="new-password"
        required
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
      />
      <FormProblem error={entry.error} />
      <Button type="submit" loading={entry.isPending}>{t`Make the account`}</Button>
    </form>
  )
}
