import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { type HosterMember, hosterInvitesQuery, hosterPeopleQuery, hosterQuery } from '../../api/hoster-queries.ts'
import { useWrite } from '../../api/use-write.ts'
import { shareText } from '../../format/number-text.ts'
import { ConfirmDialog } from '../../parts/ConfirmDialog.tsx'
import { CopyButton } from '../../parts/CopyButton.tsx'
import { DataTable } from '../../parts/DataTable.tsx'
import { EmptyState } from '../../parts/EmptyState.tsx'
import { Facts } from '../../parts/Facts.tsx'
import { Invitations } from '../../parts/Invitations.tsx'
import { Loaded } from '../../parts/Loaded.tsx'
import { Page } from '../../parts/Page.tsx'
import { Panel } from '../../parts/Panel.tsx'
import { personColumn } from '../../parts/person-column.ts'
import { RoleSelect } from '../../parts/RoleSelect.tsx'
import { When } from '../../parts/When.tsx'
import { useHosterId, useHosterRights } from '../../shell/use-hoster.ts'
import { useSession } from '../../shell/use-session.ts'
import { codeText, saidText } from '../../texts/code-text.ts'
import styles from './hoster.module.css'

const roles = [
  { value: 'owner', label: t`Owner: everything` },
  { value: 'developer', label: t`Developer: models, prices, keys` },
  { value: 'billing', label: t`Billing: earnings` },
  { value: 'viewer', label: t`Viewer: reads` },
]

/** The members of a hoster, what it is, and how it leaves. */
export function HosterSettings() {
  const hosterId = useHosterId()
  const { mayManage, mayPeople } = useHosterRights()
  const hoster = useQuery(hosterQuery(hosterId))
  return (
    <Page title={t`Settings`}>
      <People hosterId={hosterId} />
      {mayPeople && (
        <Invitations
          path={`hosters/${hosterId}/invites`}
          query={hosterInvitesQuery(hosterId)}
          area="hoster-people"
          roles={roles}
        />
      )}
      <Panel title={t`Hoster`}>
        <Loaded query={hoster} height={160}>
          {data => (
            <div className={styles.wide}>
              <Facts
                facts={{
                  [t`Name`]: data.name,
                  [t`Share of each charge`]: shareText(data.share),
                  [t`Since`]: <When at={data.created_at} />,
                  [t`First active`]: data.active_since === null ? t`not yet` : <When at={data.active_since} />,
                  [t`Id`]: (
                    <>
                      <code>{data.id}</code> <CopyButton text={data.id} what={t`the id of the hoster`} />
                    </>
                  ),
                }}
              />
              {mayManage && data.state !== 'retired' && data.state !== 'suspended' && (
                <Retire hosterId={hosterId} name={data.name} />
              )}
            </div>
          )}
        </Loaded>
      </Panel>
      <Panel title={t`History`}>
        <Loaded query={hoster} height={120}>
          {({ state_changes: changes }) => (
            <DataTable
              label={t`History`}
              rows={changes}
              keyOf={({ at, to }) => `${at} ${to}`}
              columns={[
                { title: t`Time`, cell: ({ at }) => <When at={at} />, sortBy: ({ at }) => at },
                { title: t`State`, place: 'name', cell: ({ to }) => codeText(to), sortBy: ({ to }) => to },
                { title: t`Reason`, cell: ({ reason, reason_codes }) => saidText(reason, reason_codes) },
                { title: t`By`, cell: ({ by }) => (by === 'system' ? t`the gateway` : codeText(by)) },
              ]}
            />
          )}
        </Loaded>
      </Panel>
    </Page>
  )
}

function Retire({ hosterId, name }: { hosterId: string; name: string }) {
  const [isAsking, setAsking] = useState(false)
  const retire = useWrite(() => ({ method: 'POST', path: `hosters/${hosterId}/state`, body: { state: 'retired' } }), {
    areas: ['hoster', 'hosters', 'hoster-keys'],
    done: t`${name} has left.`,
    onDone: () => setAsking(false),
  })
  return (
    <div className={styles.buttons}>
      <Button variant="default" onClick={() => setAsking(true)}>{t`Leave for good`}</Button>
      <ConfirmDialog
        isOpen={isAsking}
        title={t`Retire ${name}?`}
        name={name}
        action={t`Leave for good`}
        isBusy={retire.isPending}
        onConfirm={() => retire.mutate()}
        onClose={() => setAsking(false)}
      >
        <p>{t`It gets no further requests, its keys end, and it never comes back. What it has earned is still paid. A new hoster begins without trust.`}</p>
      </ConfirmDialog>
    </div>
  )
}

function People({ hosterId }: { hosterId: string }) {
  const { seesPeople, mayPeople } = useHosterRights()
  const ownId = useSession().person.id
  const people = useQuery({ ...hosterPeopleQuery(hosterId), enabled: seesPeople })
  const [removed, setRemoved] = useState<HosterMember | null>(null)
  const change = useWrite<{ email: string; role: string | null }>(
    body => ({ method: 'POST', path: `hosters/${hosterId}/people`, body }),
    {
      areas: ['hoster-people', 'hosters'],
      done: (_, { email, role }) => (role === null ? t`${email} is no member any more.` : t`The role is changed.`),
      onDone: () => setRemoved(null),
    },
  )
  if (!seesPeople) {
    return (
      <Panel title={t`People`}>
        <EmptyState text={t`Only owners of this hoster see its members.`} />
      </Panel>
    )
  }
  return (
    <Panel title={t`People`}>
      <Loaded query={people} height={120}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={t`Nobody can sign in for this hoster.`} />
          ) : (
            <DataTable
              label={t`People`}
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                personColumn,
                {
                  title: t`Role`,
                  cell: ({ email, role }) =>
                    mayPeople ? (
                      <RoleSelect
                        email={email}
                        role={role}
                        roles={roles}
                        onChange={value => change.mutate({ email, role: value })}
                      />
                    ) : (
                      role
                    ),
                  sortBy: ({ role }) => role,
                },
                {
                  title: t`Joined`,
                  cell: ({ joined_at }) => <When at={joined_at} />,
                  sortBy: ({ joined_at }) => joined_at,
                },
                {
                  title: '',
                  align: 'right',
                  cell: member =>
                    mayPeople && (
                      <Button variant="default" size="compact-sm" onClick={() => setRemoved(member)}>
                        {member.id === ownId ? t`Leave` : t`Remove`}
                        <span className="visually-hidden"> {member.email}</span>
                      </Button>
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {removed !== null && (
        <ConfirmDialog
          isOpen
          title={removed.id === ownId ? t`Leave this hoster?` : t`Remove ${removed.email}?`}
          action={removed.id === ownId ? t`Leave` : t`Remove`}
          isBusy={change.isPending}
          onConfirm={() => change.mutate({ email: removed.email, role: null })}
          onClose={() => setRemoved(null)}
        >
          {removed.id === ownId ? (
            <p>{t`You see nothing of this hoster any more. The keys that you made end within two seconds: make another one for an agent that uses one.`}</p>
          ) : (
            <p>{t`The person sees nothing of this hoster any more. The keys that the person made end within two seconds: make another one for an agent that uses one.`}</p>
          )}
        </ConfirmDialog>
      )}
    </Panel>
  )
}
