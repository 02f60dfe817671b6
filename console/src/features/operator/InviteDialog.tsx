import { Button, Modal, Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import styles from './operator.module.css'

/** Makes a link with which a person joins the customer. */
export function InviteDialog({ customerId, onClose }: { customerId: string; onClose: () => void }) {
  const [email, setEmail] = useState('')
  const [role, setRole] = useState('owner')
  const [url, setUrl] = useState<string | null>(null)
  const invite = useWrite<void, { url: string }>(
    () => ({ method: 'POST', path: `operator/customers/${customerId}/invites`, body: { email, role } }),
    { areas: ['customers'], onDone: answer => setUrl(answer.url), showsError: true },
  )
  return (
    <Modal opened onClose={onClose} title="Invite a person" closeOnClickOutside={url === null}>
      {url === null ? (
        <form
          className={styles.form}
          onSubmit={event => {
            event.preventDefault()
            invite.mutate()
          }}
        >
          <TextInput
            label="E-mail address"
            type="email"
            required
            value={email}
            onChange={event => setEmail(event.currentTarget.value)}
            data-autofocus
          />
          <Select
            label="Role"
            data={['owner', 'developer', 'billing', 'viewer']}
            value={role}
            onChange={value => setRole(value ?? 'owner')}
          />
          <FormProblem error={invite.error} />
          <Button type="submit" loading={invite.isPending}>
            Make the link
          </Button>
        </form>
      ) : (
        <div className={styles.form}>
          <p>Send this link to {email}. It works once, for 7 days, and cannot be shown again.</p>
          <CodeBlock code={url} what="the link" />
          <Button onClick={onClose}>Done</Button>
        </div>
      )}
    </Modal>
  )
}
