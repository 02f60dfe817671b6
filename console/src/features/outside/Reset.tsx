import { t } from '@lingui/core/macro'
import { Button, PasswordInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { request } from '../../api/request.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { MailForm } from './MailForm.tsx'
import { OutsideCard } from './OutsideCard.tsx'
import styles from './outside.module.css'
import { useLinkSecret } from './use-link-secret.ts'

/** A forgotten password: asks for the address, or, opened by the link of the mail, for the new password. */
export function Reset() {
  const token = useLinkSecret()
  return (
    <OutsideCard title={t`Forgotten password`}>
      {token === '' ? (
        <MailForm
          path="forgot"
          action={t`Send me a link`}
          sent={t`If this address has an account, a mail with a link is on its way. The link works for one hour.`}
        />
      ) : (
        <NewPassword token={token} />
      )}
      <Link to="/">{t`Sign in`}</Link>
    </OutsideCard>
  )
}

function NewPassword({ token }: { token: string }) {
  const [password, setPassword] = useState('')
  const reset = useMutation({ mutationFn: () => request('POST', 'reset', { body: { token, password } }) })
  if (reset.isSuccess)
    return <p role="status">{t`The password is set. All sessions have ended. Sign in with the new one.`}</p>
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        reset.mutate()
      }}
    >
      <PasswordInput
        label={t`New password`}
        description={t`At least 12 characters, such as four words.`}
        autoComplete="new-password"
        required
        value={password}
        onChange={event => setPassword(event.currentTarget.value)}
      />
      <FormProblem error={reset.error} />
      <Button type="submit" loading={reset.isPending}>{t`Set the password`}</Button>
    </form>
  )
}
