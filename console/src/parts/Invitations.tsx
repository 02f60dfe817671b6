import { t } from '@lingui/core/macro'
import { Button } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import type { InviteList } from '#api/people.ts'
import { useWrite } from '../api/use-write.ts'
import { codeText } from '../texts/code-text.ts'
import { DataTable } from './DataTable.tsx'
import { EmptyState } from './EmptyState.tsx'
import { InviteDialog, type RoleChoice } from './InviteDialog.tsx'
import { Loaded } from './Loaded.tsx'
import { Panel } from './Panel.tsx'
import { When } from './When.tsx'

/**
 * The open invitations to a customer, a hoster or the installation.
 *
 * @param props.path of the invitations, below /console/api
 * @param props.area the first part of the query's key
 * @param props.empty what to say while there is none
 */
export function Invitations({
  path,
  query,
  area,
  roles,
  firstRole,
  empty = t`No invitation is open. To make a member an owner, invite the member again with that role.`,
  mayChange = true,
}: {
  path: string
  query: { readonly queryKey: readonly unknown[]; readonly queryFn?: unknown }
  area: string
  roles: readonly RoleChoice[]
  firstRole?: string
  empty?: string
  mayChange?: boolean
}) {
  const invites = useQuery(query as { queryKey: readonly unknown[]; queryFn: () => Promise<InviteList> })
  const [isInviting, setInviting] = useState(false)
  const revoke = useWrite<string>(id => ({ method: 'DELETE', path: `${path}/${id}` }), {
    areas: [area],
    done: t`The invitation is taken back. Its link does not work any more.`,
  })
  return (
    <Panel
      title={t`Invitations`}
      aside={
        mayChange && (
          <Button variant="subtle" size="compact-sm" onClick={() => setInviting(true)}>{t`Invite a person`}</Button>
        )
      }
    >
      <Loaded query={invites} height={80}>
        {({ data }) =>
          data.length === 0 ? (
            <EmptyState text={empty} />
          ) : (
            <DataTable
              label={t`Invitations`}
              rows={data}
              keyOf={({ id }) => id}
              columns={[
                { title: t`Person`, place: 'name', cell: ({ email }) => email, sortBy: ({ email }) => email },
                { title: t`Role`, cell: ({ role }) => codeText(role), sortBy: ({ role }) => role },
                {
                  title: t`Ends`,
                  cell: ({ expires_at }) => <When at={expires_at} form="distance" />,
                  sortBy: ({ expires_at }) => expires_at,
                },
                {
                  title: t`By`,
                  cell: ({ made_by }) => made_by ?? t`the command line`,
                  sortBy: ({ made_by }) => made_by,
                },
                {
                  title: '',
                  align: 'right',
                  cell: ({ id, email }) =>
                    mayChange && (
                      <Button
                        variant="default"
                        size="compact-sm"
                        aria-label={t`Take back the invitation of ${email}`}
                        onClick={() => revoke.mutate(id)}
                      >{t`Take back`}</Button>
                    ),
                },
              ]}
            />
          )
        }
      </Loaded>
      {isInviting && (
        <InviteDialog
          path={path}
          areas={[area]}
          roles={roles}
          {...(firstRole !== undefined && { firstRole })}
          onClose={() => setInviting(false)}
        />
      )}
    </Panel>
  )
}
