"""What the tables and figures of several experiments have in common."""

import math
import statistics

# Student's t, 97.5 %, by degrees of freedom.
T_975 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 720, 300, 60, 16, 36, 44
COLOURS = ["#1b6ca8", "#c8553d", "#5b8c5a"]
STEPS = [digit * 10**power for power in range(8) for digit in (1, 2, 5)]
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'


def half_width(values):
    """Of the interval of 95 % of the mean of one value a seed."""
    if len(values) < 2:
        return 0.0
    return T_975.get(len(values) - 1, 1.96) * statistics.stdev(values) / math.sqrt(len(values))


def interval(values):
    """Mean of one value a seed, with its interval of 95 %."""
    mean = statistics.mean(values)
    return f"{mean:.3g} ± {half_width(values):.2g}" if len(values) > 1 else f"{mean:.3g}"


def line(*cells):
    """A row of a table in Markdown."""
    print("| " + " | ".join(cells) + " |")


def head(*cells):
    """The first rows of a table in Markdown."""
    print()
    line(*cells)
    print("|---" * len(cells) + "|")


def bars(title, unit, groups, series):
    """Bars with intervals as SVG; `series` has, by name, the values of all seeds for each group."""
    means = [statistics.mean(values) for each in series.values() for values in each]
    step = next(step for step in STEPS if max(means) * 1.15 <= 6 * step)
    top = step * math.ceil(max(means) * 1.15 / step)
    y = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / top
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">',
        f"<title>{title}</title>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
    ]
    for value in range(0, top + 1, step):
        parts.append(f'<path d="M{LEFT} {y(value):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y(value) + 4:.1f}" text-anchor="end" {FONT}>{value}</text>')
    room = (WIDTH - LEFT - RIGHT) / len(groups)
    width = room * 0.7 / len(series)
    for place, ((name, of_groups), colour) in enumerate(zip(series.items(), COLOURS)):
        parts.append(f'<rect x="{LEFT + place * 210}" y="11" width="14" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{LEFT + 20 + place * 210}" y="20" {FONT}>{name}</text>')
        for group, values in enumerate(of_groups):
            x = LEFT + room * (group + 0.15) + width * place
            mean, half = statistics.mean(values), half_width(values)
            height = y(0) - y(mean)
            parts.append(
                f'<rect x="{x:.1f}" y="{y(mean):.1f}" width="{width - 2:.1f}" height="{height:.1f}" fill="{colour}"/>'
            )
            low, high = y(max(mean - half, 0)), y(min(mean + half, top))
            parts.append(f'<path d="M{x + width / 2:.1f} {low:.1f}V{high:.1f}" stroke="#333"/>')
    for group, label in enumerate(groups):
        x = LEFT + room * (group + 0.5)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle" {FONT}>{label}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    turned = f'transform="rotate(-90 16 {middle})" text-anchor="middle"'
    parts.append(f'<text x="16" y="{middle}" {turned} {FONT}>{unit}</text>')
    return "\n".join([*parts, "</svg>", ""])
