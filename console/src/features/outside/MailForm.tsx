import { t } from '@lingui/core/macro'
import { Button, TextInput } from '@mantine/core'
import { useMutation } from '@tanstack/react-query'
import { useState } from 'react'
import { request } from '../../api/request.ts'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './outside.module.css'

/** Takes an address and has a link mailed to it. The answer is the same for every address. */
export function MailForm({ path, action, sent }: { path: string; action: string; sent: string }) {
  const [email, setEmail] = useState('')
  const mail = useMutation({ mutationFn: () => request('POST', path, { body: { email } }) })
  if (mail.isSuccess) return <p role="status">{sent}</p>
  return (
    <form
      className={styles.form}
      onSubmit={event => {
        event.preventDefault()
        mail.mutate()
      }}
    >
      <TextInput
        label={t`E-mail address`}
        type="email"
        autoComplete="username"
        required
        value={email}
        onChange={event => setEmail(event.currentTarget.value)}
      />
      <FormProblem error={mail.error} />
      <Button type="submit" loading={mail.isPending}>
        {action}
      </Button>
    </form>
  )
}
