import { t } from '@lingui/core/macro'
import { Menu } from '@mantine/core'
import { useLocation, useNavigate, useParams } from '@tanstack/react-router'
import { SwitchIcon } from '../parts/icons.tsx'
import { SwitcherRow } from './SwitcherRow.tsx'
import styles from './shell.module.css'
import { useHosterMemberships } from './use-hoster.ts'
import { useSession } from './use-session.ts'

/** Shows which customer, hoster or installation the screens belong to, and changes to another one. */
export function Switcher() {
  const { person, memberships } = useSession()
  const hosters = useHosterMemberships() ?? []
  const { customerId, hosterId } = useParams({ strict: false })
  const isOperating = useLocation().pathname.startsWith('/operator')
  const navigate = useNavigate()
  const choices = [
    ...memberships.map(({ customer_id, email }) => ({
      id: customer_id,
      kind: t`Customer`,
      name: email,
      open: () => navigate({ to: '/c/$customerId', params: { customerId: customer_id } }),
    })),
    ...hosters.map(({ id, name }) => ({
      id,
      kind: t`Hoster`,
      name,
      open: () => navigate({ to: '/h/$hosterId', params: { hosterId: id } }),
    })),
    ...(person.role === null
      ? []
      : [{ id: 'operator', kind: t`Operator`, name: t`All customers`, open: () => navigate({ to: '/operator' }) }]),
  ]
  const current = choices.find(({ id }) => id === (isOperating ? 'operator' : (customerId ?? hosterId)))
  const others = choices.filter(choice => choice !== current)
  const row = <SwitcherRow kind={current?.kind ?? t`Go to`} name={current?.name ?? t`Choose an account`} />
  if (choices.length === 0) return null
  if (others.length === 0) return <div className={styles.switcher}>{row}</div>
  return (
    <Menu width="target" position="bottom-start">
      <Menu.Target>
        <button type="button" className={styles.switcher}>
          {row}
          <SwitchIcon />
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {choices.map(choice => (
          <Menu.Item key={choice.id} onClick={choice.open} aria-current={choice === current || undefined}>
            <SwitcherRow kind={choice.kind} name={choice.name} />
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}
