import { Menu } from '@mantine/core'
import { useLocation, useNavigate, useParams } from '@tanstack/react-router'
import styles from './shell.module.css'
import { useHosterMemberships } from './use-hoster.ts'
import { useSession } from './use-session.ts'

/** Chooses the customer, the hoster, or the operator's pages. Hidden from people with one choice. */
export function Switcher() {
  const { person, memberships } = useSession()
  const hosters = useHosterMemberships() ?? []
  const { customerId, hosterId } = useParams({ strict: false })
  const isOperating = useLocation().pathname.startsWith('/operator')
  const navigate = useNavigate()
  const choices = [
    ...memberships.map(({ customer_id, email }) => ({
      id: customer_id,
      name: email,
      open: () => navigate({ to: '/c/$customerId', params: { customerId: customer_id } }),
    })),
    ...hosters.map(({ id, name }) => ({
      id,
      name: `${name} (hoster)`,
      open: () => navigate({ to: '/h/$hosterId', params: { hosterId: id } }),
    })),
    ...(person.role === null
      ? []
      : [{ id: 'operator', name: 'All customers', open: () => navigate({ to: '/operator' }) }]),
  ]
  if (choices.length < 2) return null
  const current =
    choices.find(({ id }) => id === (isOperating ? 'operator' : (customerId ?? hosterId)))?.name ?? 'Choose an account'
  return (
    <Menu width="target" position="bottom-start">
      <Menu.Target>
        <button type="button" className={styles.switcher}>
          <span>{current}</span>
          <span aria-hidden="true">▾</span>
        </button>
      </Menu.Target>
      <Menu.Dropdown>
        {choices.map(({ id, name, open }) => (
          <Menu.Item key={id} onClick={open}>
            {name}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  )
}
