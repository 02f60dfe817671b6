import { Button, Modal, Select, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { MadeInvite, MemberShown } from '#api/people.ts'
import { invitesQuery, peopleQuery } from '../../api/queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { CodeBlock } from '../../parts/CodeBlock.tsx'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { FormProblem } from '../../parts/FormProblem.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { When } from '../../parts/When.tsx'
import { useCustomerId, useRights } from '../../shell/use-session.ts'
import { MemberLimit, MemberLimitDialog } from './MemberLimit.tsx'
import styles from './settings.module.css'

const roles = [
  { value: 'owner', label: 'Owner: everything' },
  { value: 'developer', label: 'Developer: usage, keys, alerts' },
  { value: 'billing', label: 'Billing: usage, credits' },
  { value: 'viewer', label: 'Viewer: usage' },
]

/** The members of the customer, and invitations. */
export function People() {
  const { mayPeople } = useRights()
  if (!mayPeople) {
    return (
      <Panel title="People">
        <EmptyState text="Only owners of this customer see its members." />
      </Panel>
    )
  }
  return (
    <>
      <Members />
      <Invitations />
    </>
  )
}

function Members() {
  const customerId = useCustomerId()
  const people = useQuery(peopleQuery(customerId))
  const [removed, setRemoved] = useState<MemberShown | null>(null)
  const [limited, setLimited] = useState<MemberShown | null>(null)
  const change = useWrite<{ id: string; role: string }>(
    ({ id, role }) => ({ method: 'PATCH', path: `customers/${customerId}/people/${id}`, body: { role } }),
    { areas: ['people', 'session'], done: 'The role is changed.' },
  )
  const remove = useWrite<MemberShown>(
    ({ id }) => ({ method: 'DELETE', path: `customers/${customerId}/people/${id}` }),
    {
      areas: ['people'],
      done: (_, { email }) => `${email} is no member any more.`,
      onDone: () => setRemoved(null),
    },
  )
  return (
    <Panel title="Members">
      <Loaded query={people} height={120}>
        {({ data }) => (
          <DataTable
            label="Members"
            rows={data}
            keyOf={({ id }) => id}
            columns={[
              {
                title: 'Person',
                place: 'name',
                cell: ({ name, email, is_you }) =>
                  `${[name, email].filter(Boolean).join(', ')}${is_you ? ' (you)' : ''}`,
              },
              {
                title: 'Role',
                cell: ({ id, email, role }) => (
                  <Select
                    aria-label={`Role of ${email}`}
                    data={roles}
                    value={role}
                    onChange={value => value !== null && value !== role && change.mutate({ id, role: value })}
                  />
                ),
              },
              {
                title: 'Spend limit',
                cell: member => <MemberLimit member={member} onSet={() => setLimited(member)} />,
              },
              { title: 'Joined', isLabelled: true, cell: ({ joined_at }) => <When at={joined_at} /> },
              {
                title: 'Last seen',
                isLabelled: true,
                cell: ({ last_seen_at: at }) => (at === null ? 'not signed in' : <When at={at} form="distance" />),
              },
              {
                title: '',
                align: 'right',
                cell: member =>
                  !member.is_you && (
                    <Button variant="default" size="compact-sm" onClick={() => setRemoved(member)}>
                      Remove
                    </Button>
                  ),
              },
            ]}
          />
        )}
      </Loaded>
      {limited !== null && <MemberLimitDialog member={limited} onClose={() => setLimited(null)} />}
      <ConfirmDialog
        isOpen={removed !== null}
        title={`Remove ${removed?.email}?`}
        action="Remove"
        isBusy={remove.isPending}
        onConfirm={() => remove.mutate(removed!)}
        onClose={() => setRemoved(null)}
      >
        <p>
          The person sees nothing of this customer any more. Keys that the person made go on working: delete them apart.
        </p>
      </ConfirmDialog>
    </Panel>
  )
}

function Invitations() {
  const customerId = useCustomerId()
  const invites = useQuery(invitesQuery(customerId))
  const [isInviting, setInviting] = useState(false)
  const revoke = useWrite<string>(id => ({ method: 'DELETE', path: `customers/${customerId}/invites/${id}` }), {
    areas: ['people'],
    done: 'The invitation is taken back. Its link does not work any more.',
  })
  return (
    <Panel
      title="Invitations"
      aside={
        <Button variant="subtle" size="compact-sm" onClick={() => setInviting(true)}>
          Invite a person
        </Button>
      }
    >
      <Loaded query={invites} height={80}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text="No invitation is open." />
          ) : (
            <DataTable
              label="Invitations"
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { title: 'Person', place: 'name', cell: ({ email }) => email },
                { title: 'Role', cell: ({ role }) => role },
                { title: 'Ends', isLabelled: true, cell: ({ expires_at }) => <When at={expires_at} form="distance" /> },
                { title: 'By', isLabelled: true, cell: ({ made_by }) => made_by ?? 'the command line' },
                {
                  title: '',
                  align: 'right',
                  cell: ({ id }) => (
                    <Button variant="default" size="compact-sm" onClick={() => revoke.mutate(id)}>
                      Take back
                    </Button>
                  ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isInviting && <NewInvite onClose={() => setInviting(false)} />}
    </Panel>
  )
}

function NewInvite({ onClose }: { onClose: () => void }) {
  const customerId = useCustomerId()
  const [email, setEmail] = useState('')
  const [role, setRole] = useState('developer')
  const [made, setMade] = useState<MadeInvite | null>(null)
  const invite = useWrite<void, MadeInvite>(
    () => ({ method: 'POST', path: `customers/${customerId}/invites`, body: { email, role } }),
    { areas: ['people'], onDone: setMade, showsError: true },
  )
  if (made !== null) {
    return (
      <Modal opened onClose={onClose} title="Invited">
        <div className={styles.form}>
          {made.url === null ? (
            <p>An e-mail with the link is on its way to {made.email}.</p>
          ) : (
            <>
              <p>Send this link to {made.email}. It works once, for 7 days, and cannot be shown again.</p>
              <CodeBlock code={made.url} what="the link" />
            </>
          )}
          <Button onClick={onClose}>Done</Button>
        </div>
      </Modal>
    )
  }
  return (
    <Modal opened onClose={onClose} title="Invite a person">
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
        <Select label="Role" data={roles} value={role} onChange={value => setRole(value ?? 'developer')} />
        <FormProblem error={invite.error} />
        <Button type="submit" loading={invite.isPending}>
          Invite
        </Button>
      </form>
    </Modal>
  )
}
