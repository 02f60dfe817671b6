import { t } from '@lingui/core/macro'
import { Trans } from '@lingui/react/macro'
import { Button, Modal, Select, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { MadeInvite } from '#api/people.ts'
import { useWrite } from '../api/use-write.ts'
import { CodeBlock } from './CodeBlock.tsx'
import { FormDialog } from './FormDialog.tsx'
import { Field } from './FormFields.tsx'
import styles from './parts.module.css'

export interface RoleChoice {
  readonly value: string
  readonly label: string
}

/**
 * Invites a person, then says that the link is mailed, or shows it.
 *
 * @param props.path of the invitations, below /console/api
 * @param props.roles empty: the person has no choice of roles
 * @param props.newName asks for the name of what the person is to own
 */
export function InviteDialog({
  path,
  areas,
  roles,
  firstRole = 'developer',
  title = t`Invite a person`,
  newName,
  onClose,
}: {
  path: string
  areas: readonly string[]
  roles: readonly RoleChoice[]
  firstRole?: string
  title?: string
  newName?: { readonly label: string; readonly description: string }
  onClose: () => void
}) {
  const [name, setName] = useState('')
  const [email, setEmail] = useState('')
  const [role, setRole] = useState(firstRole)
  const [made, setMade] = useState<MadeInvite | null>(null)
  const invite = useWrite<void, MadeInvite>(
    () => ({
      method: 'POST',
      path,
      body: { email, ...(newName !== undefined && { name }), ...(roles.length > 0 && { role }) },
    }),
    { areas, onDone: setMade, showsError: true },
  )
  if (made !== null) {
    return (
      <Modal
        opened
        onClose={onClose}
        title={made.is_mailed || made.url !== null ? t`Invited` : t`Not mailed yet`}
        // A link that is shown once must not be lost by a stray key.
        withCloseButton={made.url === null}
        closeOnEscape={made.url === null}
      >
        <div className={styles.dialog}>
          {made.url === null ? (
            <p>
              {made.is_mailed
                ? t`An e-mail with the link is on its way to ${made.email}.`
                : t`The mail server did not take the mail to ${made.email}. Check the address, and invite the person again in some minutes.`}
            </p>
          ) : (
            <>
              <p>
                <Trans>Send this link to {made.email}. It works once, for 7 days, and cannot be shown again.</Trans>
              </p>
              <CodeBlock code={made.url} what={t`the link`} />
            </>
          )}
          <Button onClick={onClose}>{t`Done`}</Button>
        </div>
      </Modal>
    )
  }
  return (
    <FormDialog title={title} action={t`Invite`} sending={invite} onSubmit={() => invite.mutate()} onClose={onClose}>
      {newName !== undefined && (
        <TextInput
          {...newName}
          required
          value={name}
          onChange={event => setName(event.currentTarget.value)}
          data-autofocus
        />
      )}
      <Field name="email">
        <TextInput
          label={t`E-mail address`}
          type="email"
          required
          value={email}
          onChange={event => setEmail(event.currentTarget.value)}
          {...(newName === undefined && { 'data-autofocus': true })}
        />
      </Field>
      {roles.length > 0 && (
        <Select label={t`Role`} data={[...roles]} value={role} onChange={value => setRole(value ?? role)} />
      )}
    </FormDialog>
  )
}
